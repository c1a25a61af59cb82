import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.sync.RedisClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.params.SetParams;

/** Recipes on Lettuce, Jedis and spymemcached. See ../recipes.py for what a program does. */
public final class Recipes {
    private static final int WORKERS = 4;
    private static final int ROUNDS = 10;
    private static final int KEYS = 20;
    private static final long LIMIT_S = 60;
    private static final long LOCK_MS = 20_000;
    private static final String UNLOCK =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    private static final String EXTEND =
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end";

    private interface Play {
        void run() throws Exception;
    }

    /** What locks and values need. */
    private interface Store {
        boolean setIfAbsent(String key, String value);

        Object eval(String source, String key, String... arguments);

        String get(String key);

        void set(String key, String value);
    }

    private final ExecutorService executor = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    });

    private void play(String client, String recipe, Play play) {
        String outcome = "ok";
        Future<?> future = executor.submit((Callable<Void>) () -> {
            play.run();
            return null;
        });
        try {
            future.get(LIMIT_S, TimeUnit.SECONDS);
        } catch (Exception error) {
            outcome = String.valueOf(error.getCause() == null ? error : error.getCause());
        }
        String escaped = outcome.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", " ");
        System.out.printf("{\"client\": \"%s\", \"recipe\": \"%s\", \"outcome\": \"%s\"}%n", client, recipe, escaped);
    }

    private static void expect(Object found, Object expected) {
        if (!String.valueOf(found).equals(String.valueOf(expected))) {
            throw new IllegalStateException(found + " instead of " + expected);
        }
    }

    /** Threads that increment a record without INCR, each time under a lock. */
    private void exclude(Store store, String key) throws Exception {
        store.set(key, "0");
        List<Future<Void>> workers = new ArrayList<>();
        for (int at = 0; at < WORKERS; at++) {
            String token = "token" + at;
            workers.add(executor.submit((Callable<Void>) () -> {
                for (int round = 0; round < ROUNDS; round++) {
                    while (!store.setIfAbsent(key + ":lock", token)) {
                        Thread.sleep(2);
                    }
                    expect(store.eval(UNLOCK, key + ":lock", "another"), 0);
                    expect(store.eval(EXTEND, key + ":lock", token, Long.toString(2 * LOCK_MS)), 1);
                    store.set(key, Integer.toString(Integer.parseInt(store.get(key)) + 1));
                    expect(store.eval(UNLOCK, key + ":lock", token), 1);
                }
                return null;
            }));
        }
        for (Future<Void> worker : workers) {
            worker.get();
        }
        expect(store.get(key), WORKERS * ROUNDS);
    }

    /** Reads by a cache while another connection writes. */
    private static void readCached(Store cached, Store writer, String prefix) throws Exception {
        for (int round = 0; round < ROUNDS; round++) {
            for (int number = 0; number < KEYS; number++) {
                String key = prefix + ":{" + number + "}";
                writer.set(key, Integer.toString(round));
                // The invalidation is on its way.
                while (!Integer.toString(round).equals(cached.get(key))) {
                    Thread.sleep(1);
                }
                expect(cached.get(key), round);
            }
        }
    }

    /** Of one server, or of a cluster. */
    private static Store of(RedisClusterCommands<String, String> commands) {
        return new Store() {
            public boolean setIfAbsent(String key, String value) {
                return "OK".equals(commands.set(key, value, SetArgs.Builder.nx().px(LOCK_MS)));
            }

            public Object eval(String source, String key, String... arguments) {
                return commands.eval(source, ScriptOutputType.INTEGER, new String[] {key}, arguments);
            }

            public String get(String key) {
                return commands.get(key);
            }

            public void set(String key, String value) {
                commands.set(key, value);
            }
        };
    }

    private static Store of(UnifiedJedis jedis) {
        return new Store() {
            public boolean setIfAbsent(String key, String value) {
                return "OK".equals(jedis.set(key, value, SetParams.setParams().nx().px(LOCK_MS)));
            }

            public Object eval(String source, String key, String... arguments) {
                return jedis.evalsha(jedis.scriptLoad(source, key), List.of(key), List.of(arguments));
            }

            public String get(String key) {
                return jedis.get(key);
            }

            public void set(String key, String value) {
                jedis.set(key, value);
            }
        };
    }

    private void lettuce(HostAndPort first, HostAndPort last, HostAndPort redirecting) {
        RedisClient client = RedisClient.create(RedisURI.create(first.getHost(), first.getPort()));
        StatefulRedisConnection<String, String> connection = client.connect();
        RedisClient others = RedisClient.create(RedisURI.create(last.getHost(), last.getPort()));
        Store writer = of(others.connect().sync());
        play("lettuce", "a lock with scripts", () -> exclude(of(connection.sync()), "lettuce:sum"));
        play("lettuce", "ClientSideCaching", () -> {
            Map<String, String> cache = new ConcurrentHashMap<>();
            CacheFrontend<String, String> frontend =
                ClientSideCaching.enable(CacheAccessor.forMap(cache), connection, TrackingArgs.Builder.enabled());
            Store cached = new Store() {
                public boolean setIfAbsent(String key, String value) {
                    throw new UnsupportedOperationException();
                }

                public Object eval(String source, String key, String... arguments) {
                    throw new UnsupportedOperationException();
                }

                public String get(String key) {
                    return frontend.get(key);
                }

                public void set(String key, String value) {
                    throw new UnsupportedOperationException();
                }
            };
            readCached(cached, writer, "lettuce:cached");
            expect(cache.size(), KEYS);
        });
        play("lettuce", "publish and subscribe", () -> {
            Set<String> received = ConcurrentHashMap.newKeySet();
            try (StatefulRedisPubSubConnection<String, String> listener = client.connectPubSub()) {
                listener.addListener(new RedisPubSubAdapter<String, String>() {
                    @Override
                    public void message(String channel, String message) {
                        received.add(message);
                    }

                    @Override
                    public void message(String pattern, String channel, String message) {
                        received.add(pattern);
                    }
                });
                listener.sync().subscribe("lettuce:news");
                listener.sync().psubscribe("lettuce:n*");
                while (received.size() < 2) {
                    others.connect().sync().publish("lettuce:news", "hello");
                    Thread.sleep(5);
                }
            }
        });
        if (redirecting != null) {
            RedisClusterClient cluster = RedisClusterClient.create(RedisURI.create(redirecting.getHost(), redirecting.getPort()));
            play("lettuce, cluster", "a lock with scripts", () -> exclude(of(cluster.connect().sync()), "lettuce:sum"));
        }
    }

    private void jedis(HostAndPort first, HostAndPort last) {
        JedisPooled jedis = new JedisPooled(first.getHost(), first.getPort());
        JedisPooled writer = new JedisPooled(last.getHost(), last.getPort());
        play("jedis", "a lock with scripts", () -> exclude(of(jedis), "jedis:sum"));
        play("jedis", "cache of values", () -> {
            CacheConfig cache = CacheConfig.builder().maxSize(1000).build();
            DefaultJedisClientConfig config = DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build();
            try (JedisPooled cached = new JedisPooled(first, config, cache)) {
                readCached(of(cached), of(writer), "jedis:cached");
                if (cached.getCache().getStats().getHitCount() == 0) {
                    throw new IllegalStateException("nothing came from the cache");
                }
            }
        });
    }

    private void spymemcached(String name, MemcachedClient client) {
        play("spymemcached", name + ": values, counters and tokens", () -> {
            client.delete("sm:k").get();
            client.delete("sm:n").get();
            expect(client.add("sm:k", 100, "value").get(), true);
            expect(client.add("sm:k", 100, "x").get(), false);
            CASValue<Object> found = client.gets("sm:k");
            expect(found.getValue(), "value");
            expect(client.cas("sm:k", found.getCas(), "new"), CASResponse.OK);
            expect(client.cas("sm:k", found.getCas(), "newer"), CASResponse.EXISTS);
            expect(client.append(0, "sm:k", "er").get(), true);
            expect(client.getBulk("sm:k", "sm:none"), "{sm:k=newer}");
            expect(client.incr("sm:n", 5, 7), 7);
            expect(client.incr("sm:n", 5), 12);
            expect(client.decr("sm:n", 20), 0);
            expect(client.touch("sm:k", 50).get(), true);
            // The library has this for the binary protocol only.
            if (!name.equals("text")) {
                expect(client.getAndTouch("sm:k", 60).getValue(), "newer");
            }
            byte[] large = new byte[500_000];
            expect(client.set("sm:large", 0, large).get(), true);
            expect(((byte[]) client.get("sm:large")).length, large.length);
            expect(client.delete("sm:k").get(), true);
            expect(client.get("sm:k"), null);
        });
        client.shutdown();
    }

    private static MemcachedClient binary(HostAndPort at, AuthDescriptor auth) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder()
            .setProtocol(ConnectionFactoryBuilder.Protocol.BINARY).setDaemon(true).setOpTimeout(LIMIT_S * 1000 / 2);
        if (auth != null) {
            builder.setAuthDescriptor(auth);
        }
        return new MemcachedClient(builder.build(), List.of(new InetSocketAddress(at.getHost(), at.getPort())));
    }

    /** The first and the last address of an argument; nulls if there are none. */
    private static HostAndPort[] ends(String[] arguments, int at) {
        if (arguments.length <= at || arguments[at].isEmpty()) {
            return new HostAndPort[2];
        }
        String[] all = arguments[at].split(",");
        return new HostAndPort[] {HostAndPort.from(all[0]), HostAndPort.from(all[all.length - 1])};
    }

    public static void main(String[] arguments) throws Exception {
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SLF4JLogger");
        Recipes recipes = new Recipes();
        HostAndPort[] nodes = ends(arguments, 0);
        HostAndPort memcached = ends(arguments, 1)[0];
        HostAndPort guarded = ends(arguments, 3)[0];
        recipes.lettuce(nodes[0], nodes[1], ends(arguments, 2)[0]);
        recipes.jedis(nodes[0], nodes[1]);
        recipes.spymemcached("binary", binary(memcached, null));
        recipes.spymemcached("text", new MemcachedClient(new InetSocketAddress(memcached.getHost(), memcached.getPort())));
        if (guarded != null) {
            String password = System.getenv("TODANA_PASSWORD");
            AuthDescriptor auth = new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler("any", password));
            recipes.spymemcached("SASL", binary(guarded, auth));
        }
        System.exit(0);
    }
}
