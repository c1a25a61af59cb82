// Writes by ioredis' Cluster.
const { Cluster } = require("ioredis");
const { addresses, run } = require("./writers");

const client = new Cluster(addresses);
// Without a listener, errors of single connections end the process.
client.on("error", () => {});
run((key, value) => client.set(key, value), (key) => client.incr(key));
