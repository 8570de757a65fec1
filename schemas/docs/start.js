// Of the page /docs/; SwaggerUIBundle is what the script before it leaves.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  layout: "BaseLayout",
  deepLinking: true,
  // Folded: operations show the schemas they use.
  defaultModelsExpandDepth: 0,
  // A badge of another site's making, which would be told the address of this one.
  validatorUrl: null,
  // A key is forgotten with the page.
  persistAuthorization: false,
});
