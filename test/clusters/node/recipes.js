// Runs recipes and prints a line of JSON for each. See ../recipes.py for what a program does.
const assert = require("node:assert/strict");

const RECIPE_LIMIT_MS = 60000;
const PAUSE_MS = 5;

const parsed = (text) => (text || "").split(",").filter(Boolean).map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});

const [, , resp, memcached, redirecting, guarded] = process.argv;
exports.nodes = parsed(resp);
exports.memcached = parsed(memcached);
exports.redirecting = parsed(redirecting);
exports.guarded = parsed(guarded);
exports.pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Waits until a condition holds; the limit of the recipe ends the wait.
exports.until = async (holds) => {
  while (!(await holds())) await exports.pause(PAUSE_MS);
};

// `recipes` maps names to functions that throw if something is not as it should be.
exports.run = async (client, recipes) => {
  for (const [recipe, play] of Object.entries(recipes)) {
    let outcome = "ok";
    let timer;
    try {
      const late = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error("no end within the limit")), RECIPE_LIMIT_MS);
      });
      await Promise.race([play(assert), late]);
    } catch (error) {
      outcome = `${error.constructor.name}: ${error.message || JSON.stringify(error)}`;
    }
    clearTimeout(timer);
    console.log(JSON.stringify({ client, recipe, outcome }));
  }
  process.exit(0);
};
