// Starts Swagger UI on /docs/. The script before this one defines SwaggerUIBundle; the class dark-mode makes it dark.
const dark = matchMedia("(prefers-color-scheme: dark)");
const followScheme = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", followScheme);
followScheme();

SwaggerUIBundle({
  // Relative, since the service may lie below a path.
  url: "../openapi.json",
  dom_id: "#api",
  layout: "BaseLayout",
  deepLinking: true,
  // The list of schemas is collapsed, because every operation shows the schemas it uses.
  defaultModelsExpandDepth: 0,
  // No validator badge: it would load an image from another site and tell it this address.
  validatorUrl: null,
  // The API key is forgotten when the page is left.
  persistAuthorization: false,
});
