// Writes by node-redis' createCluster.
const { createCluster } = require("redis");
const { addresses, run } = require("./writers");

const options = { rootNodes: addresses.map(({ host, port }) => ({ url: `redis://${host}:${port}` })) };
if (process.argv[2].endsWith("+refresh")) options.topologyRefreshOnReconnectionAttemptStrategy = 100;

const client = createCluster(options);
client.on("error", () => {});
client.connect().then(() => run((key, value) => client.set(key, value), (key) => client.incr(key)));
