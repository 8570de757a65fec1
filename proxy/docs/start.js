// Of the page /docs/; SwaggerUIBundle is what the script before it leaves. Its style sheet is dark below a class.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

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
