// Writers that node.js clients share. See ../drive.py for what a program does.
const readline = require("node:readline");

const WORKERS = 2;
const PAUSE_MS = 1;
const AFTER_FAILURE_MS = 10;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

exports.addresses = process.argv[3].split(",").map((address) => {
  const [host, port] = address.split(":");
  return { host, port: Number(port) };
});

exports.run = (set, incr) => {
  const prefix = process.argv[4];
  const errors = {};
  const start = performance.now();
  const workers = Array.from({ length: WORKERS }, () => ({ acknowledged: 0, counted: 0, last: start, longest: 0 }));

  const attempt = async (worker, name, call) => {
    try {
      await call();
    } catch (error) {
      const text = `${error.constructor.name}: ${error.lastNodeError?.message || error.message || error.code}`;
      errors[text] = (errors[text] || 0) + 1;
      await pause(AFTER_FAILURE_MS);
      return false;
    }
    const now = performance.now();
    worker.longest = Math.max(worker.longest, now - worker.last);
    worker.last = now;
    worker[name] += 1;
    return true;
  };

  workers.forEach(async (worker, at) => {
    for (let number = 0; ; number += 1) {
      while (!(await attempt(worker, "acknowledged", () => set(`${prefix}:${at}:${number}`, String(number)))));
      await attempt(worker, "counted", () => incr(`${prefix}:${at}:count`));
      await pause(PAUSE_MS);
    }
  });

  const report = () => {
    const now = performance.now();
    const longest = Math.max(...workers.map((worker) => Math.max(worker.longest, now - worker.last)));
    workers.forEach((worker) => Object.assign(worker, { longest: 0, last: now }));
    console.log(JSON.stringify({
      acknowledged: workers.map((worker) => worker.acknowledged),
      counted: workers.map((worker) => worker.counted),
      longest_ms: Math.round(longest),
      errors,
    }));
  };

  const lines = readline.createInterface({ input: process.stdin });
  lines.on("line", report);
  lines.on("close", () => {
    report();
    process.exit(0);
  });
};
