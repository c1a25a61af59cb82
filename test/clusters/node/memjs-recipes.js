// Recipes on memjs, which speaks the binary protocol: values, counters, and a lock by `add`.
const memjs = require("memjs");
const { memcached, guarded, pause, run } = require("./recipes");

const PASSWORD = process.env.TODANA_PASSWORD;
const WORKERS = 3;
const ROUNDS = 10;
const opened = ({ host, port }, options) => memjs.Client.create(`${host}:${port}`, { retries: 2, timeout: 30, ...options });

const of = (kind, client) => ({
  [`${kind}: values and counters`]: async (assert) => {
    await client.delete("mj:k").catch(() => {});
    assert.equal(await client.set("mj:k", "value", { expires: 100 }), true);
    assert.equal((await client.get("mj:k")).value.toString(), "value");
    assert.equal(await client.add("mj:k", "x"), false);
    assert.equal(await client.replace("mj:k", "y"), true);
    assert.equal(await client.append("mj:k", "z"), true);
    assert.equal((await client.get("mj:k")).value.toString(), "yz");
    assert.equal(await client.touch("mj:k", 50), true);
    await client.delete("mj:n");
    assert.equal((await client.increment("mj:n", 5, { initial: 7 })).value, 7);
    assert.equal((await client.increment("mj:n", 5, {})).value, 12);
    assert.equal((await client.decrement("mj:n", 20, {})).value, 0);
    const long = Buffer.alloc(500000, "x");
    assert.equal(await client.set("mj:long", long), true);
    assert.ok((await client.get("mj:long")).value.equals(long));
    await assert.rejects(client.set("mj:too-long", Buffer.alloc(2000000)), /too/i);
    assert.equal(await client.delete("mj:k"), true);
    assert.equal((await client.get("mj:k")).value, null);
  },
  [`${kind}: a lock by add`]: async (assert) => {
    await client.set("mj:sum", "0");
    await client.delete("mj:lock");
    const work = async () => {
      for (let round = 0; round < ROUNDS; round += 1) {
        while (!(await client.add("mj:lock", "1", { expires: 100 }))) await pause(2);
        await client.set("mj:sum", String(Number((await client.get("mj:sum")).value) + 1));
        await client.delete("mj:lock");
      }
    };
    await Promise.all(Array.from({ length: WORKERS }, work));
    assert.equal((await client.get("mj:sum")).value.toString(), String(WORKERS * ROUNDS));
  },
});

const recipes = of("plain", opened(memcached[0]));
if (guarded.length) {
  Object.assign(recipes, of("SASL", opened(guarded[0], { username: "any", password: PASSWORD })));
  recipes["SASL: a wrong password"] = async (assert) => {
    await assert.rejects(opened(guarded[0], { username: "any", password: "wrong", retries: 1 }).get("k"));
  };
}
run("memjs", recipes);
