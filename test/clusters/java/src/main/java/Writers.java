import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.models.partitions.RedisClusterNode.NodeFlag;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

/** Writes by Lettuce and by Jedis. See ../drive.py for what a program does. */
public final class Writers {
    private static final int WORKERS = 2;
    private static final int PAUSE_MS = 1;
    private static final int AFTER_FAILURE_MS = 10;

    private interface Client {
        void set(String key, String value);

        void incr(String key);
    }

    private static final class Worker {
        int acknowledged;
        int counted;
        long lastNs = System.nanoTime();
        long longestNs;
    }

    private final Worker[] workers = new Worker[WORKERS];
    private final Map<String, Integer> errors = new TreeMap<>();

    private Writers(Client client, String prefix) {
        for (int at = 0; at < WORKERS; at++) {
            workers[at] = new Worker();
        }
        for (int at = 0; at < WORKERS; at++) {
            int number = at;
            Thread thread = new Thread(() -> write(number, client, prefix));
            thread.setDaemon(true);
            thread.start();
        }
    }

    private void write(int at, Client client, String prefix) {
        Worker worker = workers[at];
        for (int number = 0;; number++) {
            String key = prefix + ":" + at + ":" + number;
            String value = Integer.toString(number);
            while (!attempt(worker, () -> client.set(key, value), () -> worker.acknowledged++)) {
                pause(AFTER_FAILURE_MS);
            }
            if (!attempt(worker, () -> client.incr(prefix + ":" + at + ":count"), () -> worker.counted++)) {
                pause(AFTER_FAILURE_MS);
            }
            pause(PAUSE_MS);
        }
    }

    private boolean attempt(Worker worker, Runnable call, Runnable count) {
        String failure = null;
        try {
            call.run();
        } catch (RuntimeException error) {
            Throwable root = error;
            while (root.getCause() != null) {
                root = root.getCause();
            }
            failure = error.getClass().getSimpleName() + ": " + root.getMessage();
        }
        synchronized (this) {
            if (failure != null) {
                errors.merge(failure, 1, Integer::sum);
                return false;
            }
            long now = System.nanoTime();
            worker.longestNs = Math.max(worker.longestNs, now - worker.lastNs);
            worker.lastNs = now;
            count.run();
            return true;
        }
    }

    private static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private synchronized void report() {
        long now = System.nanoTime();
        long longest = 0;
        List<Integer> acknowledged = new ArrayList<>();
        List<Integer> counted = new ArrayList<>();
        for (Worker worker : workers) {
            acknowledged.add(worker.acknowledged);
            counted.add(worker.counted);
            longest = Math.max(longest, Math.max(worker.longestNs, now - worker.lastNs));
            worker.longestNs = 0;
            worker.lastNs = now;
        }
        StringBuilder texts = new StringBuilder();
        errors.forEach((text, count) -> {
            String quoted = text.replaceAll("[\\\\\"\\p{Cntrl}]", " ");
            texts.append(texts.length() == 0 ? "" : ",").append('"').append(quoted).append("\":").append(count);
        });
        System.out.printf("{\"acknowledged\":%s,\"counted\":%s,\"longest_ms\":%d,\"errors\":{%s}}%n",
            acknowledged, counted, longest / 1_000_000, texts);
        System.out.flush();
    }

    private static Client jedis(String[] addresses) {
        Set<HostAndPort> nodes = new HashSet<>();
        for (String address : addresses) {
            nodes.add(HostAndPort.from(address));
        }
        JedisCluster client = new JedisCluster(nodes);
        return new Client() {
            @Override
            public void set(String key, String value) {
                client.set(key, value);
            }

            @Override
            public void incr(String key) {
                client.incr(key);
            }
        };
    }

    private static Client lettuce(String[] addresses, boolean refreshes, boolean forgets) {
        List<RedisURI> nodes = new ArrayList<>();
        for (String address : addresses) {
            nodes.add(RedisURI.create("redis://" + address));
        }
        RedisClusterClient client = RedisClusterClient.create(nodes);
        if (refreshes) {
            ClusterTopologyRefreshOptions refresh = ClusterTopologyRefreshOptions.builder()
                .enablePeriodicRefresh(Duration.ofSeconds(1)).enableAllAdaptiveRefreshTriggers().build();
            client.setOptions(ClusterClientOptions.builder().topologyRefreshOptions(refresh)
                .nodeFilter(node -> !(forgets && node.is(NodeFlag.FAIL))).build());
        }
        var commands = client.connect().sync();
        return new Client() {
            @Override
            public void set(String key, String value) {
                commands.set(key, value);
            }

            @Override
            public void incr(String key) {
                commands.incr(key);
            }
        };
    }

    public static void main(String[] arguments) throws Exception {
        String[] addresses = arguments[1].split(",");
        Callable<Client> connect = switch (arguments[0]) {
            case "jedis" -> () -> jedis(addresses);
            case "lettuce" -> () -> lettuce(addresses, false, false);
            case "lettuce+refresh" -> () -> lettuce(addresses, true, false);
            case "lettuce+filter" -> () -> lettuce(addresses, true, true);
            default -> throw new IllegalArgumentException(arguments[0]);
        };
        Writers writers = new Writers(connect.call(), arguments[2]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        while (lines.readLine() != null) {
            writers.report();
        }
        writers.report();
        System.exit(0);
    }
}
