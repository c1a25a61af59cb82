// Recipes on ioredis: redlock, rate-limiter-flexible, and commands that are scripts.
const { Redis, Cluster } = require("ioredis");
const { default: Redlock } = require("redlock");
const { RateLimiterRedis, BurstyRateLimiter, RateLimiterQueue } = require("rate-limiter-flexible");
const { nodes, redirecting, pause, until, run } = require("./recipes");

const WORKERS = 4;
const ROUNDS = 10;
// A status queue like those of job libraries: a job is reserved, finished or given back by a token.
const RESERVE = `
local state = redis.call("GET", KEYS[1])
if state and cjson.decode(state).token then return {false, redis.call("PTTL", KEYS[1])} end
local job = state and cjson.decode(state) or {attempts = 0}
job.attempts, job.token = job.attempts + 1, ARGV[1]
redis.call("SET", KEYS[1], cjson.encode(job), "PX", ARGV[2])
return {ARGV[1], job.attempts}`;
const FINISH = `
local state = redis.call("GET", KEYS[1])
if not state or cjson.decode(state).token ~= ARGV[1] then return redis.error_reply("NOTMINE " .. KEYS[1]) end
redis.call("DEL", KEYS[1])
return redis.call("INCR", KEYS[2])`;

const commands = {
  reserve: { numberOfKeys: 1, lua: RESERVE },
  finish: { numberOfKeys: 2, lua: FINISH },
};

// Workers that increment a record without INCR, under a lock.
const excluded = async (assert, client, redlock, key) => {
  await client.set(key, 0);
  const work = async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      await redlock.using([`${key}:lock`], 20000, async () => {
        await client.set(key, Number(await client.get(key)) + 1);
      });
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  assert.equal(await client.get(key), String(WORKERS * ROUNDS));
};

const redlockOf = (clients) => new Redlock(clients, { retryCount: -1, retryDelay: 5, retryJitter: 5 });

const of = (kind, client, others) => ({
  [`${kind}: defineCommand`]: async (assert) => {
    await client.del("{job}1", "{job}done");
    assert.deepEqual(await client.reserve("{job}1", "t1", 20000), ["t1", 1]);
    const [none, left] = await client.reserve("{job}1", "t2", 20000);
    assert.ok(none === null && left > 0 && left <= 20000);
    await assert.rejects(client.finish("{job}1", "{job}done", "t2"), /NOTMINE/);
    const replies = await client.pipeline().finish("{job}1", "{job}done", "t1").reserve("{job}1", "t3", 20000).exec();
    assert.deepEqual(replies, [[null, 1], [null, ["t3", 1]]]);
  },
  [`${kind}: pipeline and MULTI`]: async (assert) => {
    const replies = await client.pipeline().set("{p}a", 1).incr("{p}a").get("{p}a").exec();
    assert.deepEqual(replies, [[null, "OK"], [null, 2], [null, "2"]]);
    assert.deepEqual(await client.multi().incr("{p}a").mget("{p}a", "{p}b").exec(), [[null, 3], [null, ["3", null]]]);
  },
  [`${kind}: redlock excludes`]: (assert) => excluded(assert, client, redlockOf([client]), `${kind}:sum`),
  [`${kind}: redlock acquires, extends and releases`]: async (assert) => {
    const redlock = new Redlock([client], { retryCount: 0 });
    await client.del("{r}a", "{r}b");
    let lock = await redlock.acquire(["{r}a", "{r}b"], 20000);
    await assert.rejects(redlock.acquire(["{r}b"], 1000), /quorum/);
    lock = await lock.extend(40000);
    assert.ok((await client.pttl("{r}b")) > 20000);
    await lock.release();
    assert.equal(await client.exists("{r}a", "{r}b"), 0);
  },
  [`${kind}: RateLimiterRedis`]: async (assert) => {
    const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix: `${kind}:rl`, points: 3, duration: 60, blockDuration: 120 });
    await limiter.delete("u");
    const left = [];
    for (let n = 0; n < 3; n += 1) left.push((await limiter.consume("u")).remainingPoints);
    assert.deepEqual(left, [2, 1, 0]);
    const refused = await limiter.consume("u").then(() => null, (rejected) => rejected);
    assert.ok(refused.msBeforeNext > 60000, JSON.stringify(refused));
    assert.equal((await limiter.get("u")).consumedPoints, 4);
    await limiter.reward("u", 2);
    await limiter.block("u", 5);
    assert.ok((await limiter.get("u")).msBeforeNext <= 5000);
    assert.equal(await limiter.delete("u"), true);
    assert.equal(await limiter.get("u"), null);
  },
  [`${kind}: BurstyRateLimiter`]: async (assert) => {
    const one = new RateLimiterRedis({ storeClient: client, keyPrefix: `${kind}:one`, points: 1, duration: 60 });
    const burst = new RateLimiterRedis({ storeClient: client, keyPrefix: `${kind}:burst`, points: 2, duration: 120 });
    await Promise.all([one.delete("u"), burst.delete("u")]);
    const limiter = new BurstyRateLimiter(one, burst);
    for (let n = 0; n < 3; n += 1) await limiter.consume("u");
    await assert.rejects(async () => {
      try { await limiter.consume("u"); } catch (rejected) { throw new Error(`refused ${rejected.msBeforeNext > 0}`); }
    }, /refused true/);
  },
  [`${kind}: RateLimiterQueue`]: async (assert) => {
    const limiter = new RateLimiterRedis({ storeClient: client, keyPrefix: `${kind}:queue`, points: 2, duration: 1 });
    const queue = new RateLimiterQueue(limiter, { maxQueueSize: 10 });
    await Promise.all(Array.from({ length: 5 }, () => queue.removeTokens(1)));
  },
  [`${kind}: publish and subscribe`]: async (assert) => {
    const subscriber = client.duplicate();
    const received = [];
    subscriber.on("message", (channel, message) => received.push([channel, message]));
    subscriber.on("pmessage", (pattern, channel, message) => received.push([pattern, channel, message]));
    await subscriber.subscribe("io:news");
    await subscriber.psubscribe("io:n*");
    await until(async () => {
      await others.publish("io:news", "hello");
      return received.length >= 2;
    });
    assert.deepEqual(received.slice(0, 2), [["io:news", "hello"], ["io:n*", "io:news", "hello"]]);
    await subscriber.unsubscribe("io:news");
    subscriber.disconnect();
  },
  [`${kind}: scanStream`]: async (assert) => {
    const keys = Array.from({ length: 200 }, (_, n) => `${kind}:{scan}${n}`);
    await client.mset(Object.fromEntries(keys.map((key) => [key, "x"])));
    const node = client.nodes ? client.nodes("master")[0] : client;
    const found = new Set();
    for await (const page of node.scanStream({ match: `${kind}:{scan}*`, count: 50 })) page.forEach((key) => found.add(key));
    assert.deepEqual([...found].sort(), keys.sort());
  },
});

const client = new Redis({ ...nodes[0], scripts: commands });
const other = new Redis({ ...nodes.at(-1), scripts: commands });
const recipes = of("Redis", client, other);
recipes["Redis: redlock on all nodes"] = async (assert) => {
  // The nodes of a cluster are one store, so a lock is taken on one of them.
  await excluded(assert, other, redlockOf([client]), "redlock:sum");
};
recipes["Redis: client-side events of keys"] = async (assert) => {
  await other.config("SET", "notify-keyspace-events", "KEA");
  const subscriber = other.duplicate();
  const received = [];
  subscriber.on("pmessage", (_, channel, event) => received.push(`${channel.split(":")[1]} ${event}`));
  await subscriber.psubscribe("__keyspace@0__:session*");
  await client.set("session1", "x", "PX", 100);
  await until(() => received.includes("session1 expired"));
  assert.deepEqual(received, ["session1 set", "session1 expire", "session1 expired"]);
  subscriber.disconnect();
};
if (redirecting.length) {
  const cluster = new Cluster([redirecting[0]], { scripts: commands });
  Object.assign(recipes, of("Cluster", cluster, other));
}
run("ioredis", recipes);
