// Recipes on node-redis: its cache of values, scripts, messages, transactions.
const { createClient, createCluster, createClientPool, defineScript, BasicClientSideCache } = require("redis");
const { nodes, redirecting, until, run } = require("./recipes");

const KEYS = 20;
const ROUNDS = 20;
const url = ({ host, port }) => `redis://${host}:${port}`;

const scripts = {
  take: defineScript({
    NUMBER_OF_KEYS: 1,
    SCRIPT: `local left = tonumber(redis.call("GET", KEYS[1]) or ARGV[1])
      if left == 0 then return -1 end
      redis.call("SET", KEYS[1], left - 1, "PX", ARGV[2])
      return left - 1`,
    parseCommand(parser, key, tokens, ms) {
      parser.pushKey(key);
      parser.push(String(tokens), String(ms));
    },
    transformReply: undefined,
  }),
};

// Reads that come from the cache, while another connection writes.
const cached = async (assert, client, writer, cache) => {
  for (let round = 0; round < ROUNDS; round += 1) {
    for (let number = 0; number < KEYS; number += 1) {
      const key = `cached:{${number}}`;
      await writer.set(key, round);
      // The invalidation is on its way.
      await until(async () => (await client.get(key)) === String(round));
      assert.equal(await client.get(key), String(round));
    }
  }
  const { hitCount, missCount } = cache.stats();
  assert.ok(hitCount > 0 && missCount >= KEYS, JSON.stringify(cache.stats()));
};

const of = (kind, client, writer) => ({
  [`${kind}: defineScript`]: async (assert) => {
    await client.del("tokens");
    assert.deepEqual(await Promise.all([1, 2, 3].map(() => client.take("tokens", 2, 20000))), [1, 0, -1]);
    assert.deepEqual(await client.multi().take("tokens", 2, 20000).get("tokens").exec(), [-1, "0"]);
  },
  [`${kind}: publish and subscribe`]: async (assert) => {
    const subscriber = client.duplicate();
    subscriber.on("error", () => {});
    await subscriber.connect();
    const received = new Set();
    await subscriber.subscribe("nr:news", (message, channel) => received.add(`${channel} ${message}`));
    await subscriber.pSubscribe("nr:n*", (message, channel) => received.add(`pattern ${channel} ${message}`));
    await subscriber.sSubscribe("nr:shard", (message, channel) => received.add(`${channel} ${message}`));
    await until(async () => {
      await writer.publish("nr:news", "hello");
      await writer.sPublish("nr:shard", "hello");
      return received.size === 3;
    });
    assert.deepEqual([...received].sort(), ["nr:news hello", "nr:shard hello", "pattern nr:news hello"]);
    await subscriber.unsubscribe("nr:news");
    await subscriber.close();
  },
});

(async () => {
  const opened = async (client) => client.on("error", () => {}).connect();
  const cache = new BasicClientSideCache({ ttl: 0, maxEntries: 1000 });
  const client = await opened(createClient({ url: url(nodes[0]), RESP: 3, scripts, clientSideCache: cache }));
  const resp2 = await opened(createClient({ url: url(nodes[0]), RESP: 2, scripts }));
  const writer = await opened(createClient({ url: url(nodes.at(-1)) }));
  const recipes = {
    "cache of values": (assert) => cached(assert, client, writer, cache),
    "WATCH": async (assert) => {
      const pool = await opened(createClientPool({ url: url(nodes[0]) }, { maximum: 3 }));
      await pool.set("watched", 0);
      const add = () => pool.execute(async (own) => {
        for (;;) {
          await own.watch("watched");
          const found = Number(await own.get("watched"));
          try {
            return await own.multi().set("watched", found + 1).exec();
          } catch (error) {
            if (error.constructor.name !== "WatchError") throw error;
          }
        }
      });
      await Promise.all(Array.from({ length: 20 }, add));
      assert.equal(await pool.get("watched"), "20");
      await pool.close();
    },
    "SET with conditions": async (assert) => {
      await client.del("lock");
      assert.equal(await client.set("lock", "a", { condition: "NX", expiration: { type: "PX", value: 20000 } }), "OK");
      assert.equal(await client.set("lock", "b", { condition: "NX", expiration: { type: "PX", value: 20000 } }), null);
      assert.equal(await client.getDel("lock"), "a");
    },
    "scanIterator": async (assert) => {
      await client.mSet(Array.from({ length: 100 }, (_, n) => [`scan:${n}`, "x"]));
      let found = 0;
      for await (const page of client.scanIterator({ MATCH: "scan:*", COUNT: 20 })) found += page.length;
      assert.ok(found >= 100);
    },
    ...of("RESP3", client, writer),
    ...of("RESP2", resp2, writer),
  };
  if (redirecting.length) {
    const cacheOfAll = new (require("redis").BasicPooledClientSideCache)({ ttl: 0, maxEntries: 1000 });
    const rootNodes = [{ url: url(redirecting[0]) }];
    const cluster = await opened(createCluster({ rootNodes, RESP: 3, scripts, clientSideCache: cacheOfAll }));
    recipes["Cluster: cache of values"] = (assert) => cached(assert, cluster, writer, cacheOfAll);
    const plain = await opened(createCluster({ rootNodes, scripts }));
    Object.assign(recipes, of("Cluster", plain, writer));
  }
  await run("node-redis", recipes);
})();
