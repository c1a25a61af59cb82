// Recipes in Go: rueidis with its cache and locks, go-redis with redsync, redislock and redis_rate, and gomemcache.
// See ../recipes.py for what a program does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const (
	recipeLimit = time.Minute
	workers     = 4
	rounds      = 10
	cachedKeys  = 20
	validity    = 20 * time.Second
	pause       = 5 * time.Millisecond
)

type recipe func(ctx context.Context) error

func play(client, name string, recipe recipe) {
	ctx, cancel := context.WithTimeout(context.Background(), recipeLimit)
	defer cancel()
	outcome := "ok"
	if err := recipe(ctx); err != nil {
		outcome = err.Error()
	}
	line, _ := json.Marshal(map[string]string{"client": client, "recipe": name, "outcome": outcome})
	fmt.Println(string(line))
}

func equal(what string, found, expected any) error {
	if found != expected {
		return fmt.Errorf("%s is %v instead of %v", what, found, expected)
	}
	return nil
}

// Goroutines that increment a record without INCR, each time under a lock.
func excluded(ctx context.Context, store *redis.Client, key string, lock func() (func() error, error)) error {
	if err := store.Set(ctx, key, 0, 0).Err(); err != nil {
		return err
	}
	work := func() error {
		for range rounds {
			unlock, err := lock()
			if err != nil {
				return err
			}
			found, err := store.Get(ctx, key).Int()
			if err != nil {
				return err
			}
			if err := store.Set(ctx, key, found+1, 0).Err(); err != nil {
				return err
			}
			if err := unlock(); err != nil {
				return err
			}
		}
		return nil
	}
	failures := make([]error, workers)
	var group sync.WaitGroup
	for at := range workers {
		group.Go(func() { failures[at] = work() })
	}
	group.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	found, err := store.Get(ctx, key).Int()
	return errors.Join(err, equal("the sum", found, workers*rounds))
}

func locksOfRueidis(option rueidis.ClientOption, store *redis.Client, name string, majority int32) recipe {
	return func(ctx context.Context) error {
		locker, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyMajority: majority, KeyValidity: validity})
		if err != nil {
			return err
		}
		defer locker.Close()
		other, err := rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyMajority: majority, KeyValidity: validity})
		if err != nil {
			return err
		}
		defer other.Close()
		_, release, err := locker.WithContext(ctx, name+":one")
		if err != nil {
			return err
		}
		if _, _, err := other.TryWithContext(ctx, name+":one"); !errors.Is(err, rueidislock.ErrNotLocked) {
			return fmt.Errorf("a lock that is held: %w", err)
		}
		release()
		turn := 0
		var guard sync.Mutex
		return excluded(ctx, store, name+":sum", func() (func() error, error) {
			guard.Lock()
			turn++
			chosen := []rueidislock.Locker{locker, other}[turn%2]
			guard.Unlock()
			_, release, err := chosen.WithContext(ctx, name)
			return func() error { release(); return nil }, err
		})
	}
}

// Reads by the cache while another connection writes.
func cached(client rueidis.Client, writer *redis.Client, name string) recipe {
	return func(ctx context.Context) error {
		hits := 0
		for round := range rounds {
			want := strconv.Itoa(round)
			for number := range cachedKeys {
				key := fmt.Sprintf("%s:{%d}", name, number)
				if err := writer.Set(ctx, key, want, 0).Err(); err != nil {
					return err
				}
				for {
					reply := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour)
					value, err := reply.ToString()
					if err != nil && !rueidis.IsRedisNil(err) {
						return err
					}
					if value == want && reply.IsCacheHit() {
						hits++
						break
					}
					if ctx.Err() != nil {
						return fmt.Errorf("%s is %q: %w", key, value, ctx.Err())
					}
				}
			}
		}
		return equal("the number of hits", hits, rounds*cachedKeys)
	}
}

func ofRueidis(address string, isCluster bool, writer *redis.Client) map[string]recipe {
	option := rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: !isCluster}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return map[string]recipe{"connect": func(context.Context) error { return err }}
	}
	take := rueidis.NewLuaScript(`if redis.call("INCR", KEYS[1]) == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[1]) end return redis.call("GET", KEYS[1])`)
	return map[string]recipe{
		"cache of values":    cached(client, writer, "rueidis"),
		"rueidislock":        locksOfRueidis(option, writer, "rl", 2),
		"rueidislock, 1 key": locksOfRueidis(option, writer, "rl1", 1),
		"NewLuaScript": func(ctx context.Context) error {
			if err := writer.Del(ctx, "{lua}1", "{lua}2").Err(); err != nil {
				return err
			}
			calls := []rueidis.LuaExec{{Keys: []string{"{lua}1"}, Args: []string{"20000"}}, {Keys: []string{"{lua}2"}, Args: []string{"20000"}}}
			for _, reply := range take.ExecMulti(ctx, client, calls...) {
				found, err := reply.ToString()
				if err := errors.Join(err, equal("the count", found, "1")); err != nil {
					return err
				}
			}
			found, err := take.Exec(ctx, client, []string{"{lua}1"}, []string{"20000"}).ToString()
			return errors.Join(err, equal("the count", found, "2"))
		},
		"MGetCache": func(ctx context.Context) error {
			// A write at another node would be seen within read_bound_ms only.
			if err := client.Do(ctx, client.B().Mset().KeyValue().KeyValue("{mg}1", "a").KeyValue("{mg}2", "b").Build()).Error(); err != nil {
				return err
			}
			for range 2 {
				found, err := rueidis.MGetCache(client, ctx, time.Hour, []string{"{mg}1", "{mg}2", "{mg}3"})
				if err != nil {
					return err
				}
				one, third := found["{mg}1"], found["{mg}3"]
				first, _ := one.ToString()
				if err := errors.Join(equal("the first", first, "a"), equal("the third is nil", third.IsNil(), true)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func ofGoRedis(client redis.UniversalClient, store *redis.Client, name string) map[string]recipe {
	pools := redsync.New(goredis.NewPool(client))
	limiter := redis_rate.NewLimiter(client)
	return map[string]recipe{
		"redsync excludes": func(ctx context.Context) error {
			return excluded(ctx, store, name+":sum", func() (func() error, error) {
				mutex := pools.NewMutex(name+":mutex", redsync.WithExpiry(validity), redsync.WithTries(1<<20), redsync.WithRetryDelay(pause))
				if err := mutex.LockContext(ctx); err != nil {
					return nil, err
				}
				return func() error {
					if isExtended, err := mutex.ExtendContext(ctx); !isExtended || err != nil {
						return fmt.Errorf("not extended: %w", err)
					}
					_, err := mutex.UnlockContext(ctx)
					return err
				}, nil
			})
		},
		"redislock": func(ctx context.Context) error {
			locker := redislock.New(client)
			lock, err := locker.Obtain(ctx, name+":lock", validity, nil)
			if err != nil {
				return err
			}
			if _, err := locker.Obtain(ctx, name+":lock", validity, nil); !errors.Is(err, redislock.ErrNotObtained) {
				return fmt.Errorf("a lock that is held: %w", err)
			}
			if err := lock.Refresh(ctx, 2*validity, nil); err != nil {
				return err
			}
			left, err := lock.TTL(ctx)
			if err := errors.Join(err, equal("it is longer", left > validity, true)); err != nil {
				return err
			}
			return lock.Release(ctx)
		},
		"redis_rate": func(ctx context.Context) error {
			key := name + ":rate"
			if err := limiter.Reset(ctx, key); err != nil {
				return err
			}
			for number := range 4 {
				found, err := limiter.Allow(ctx, key, redis_rate.PerHour(3))
				allowed := min(1, 3-number)
				if err := errors.Join(err); err != nil {
					return err
				}
				if err := errors.Join(equal("allowed", found.Allowed, allowed), equal("remaining", found.Remaining, max(0, 2-number))); err != nil {
					return err
				}
			}
			found, err := limiter.AllowAtMost(ctx, key+"2", redis_rate.PerHour(10), 20)
			return errors.Join(err, equal("allowed at most", found.Allowed, 10), limiter.Reset(ctx, key+"2"))
		},
		"publish and subscribe": func(ctx context.Context) error {
			subscriber := client.Subscribe(ctx, name+":news")
			defer subscriber.Close()
			if err := subscriber.PSubscribe(ctx, name+":n*"); err != nil {
				return err
			}
			for kinds := map[string]bool{}; len(kinds) < 2; {
				if err := store.Publish(ctx, name+":news", "hello").Err(); err != nil {
					return err
				}
				message, err := subscriber.ReceiveTimeout(ctx, recipeLimit)
				if err != nil {
					return err
				}
				if received, isMessage := message.(*redis.Message); isMessage {
					kinds[received.Pattern] = true
				}
			}
			return nil
		},
		"WATCH": func(ctx context.Context) error {
			key := name + ":watched"
			if err := client.Set(ctx, key, 0, 0).Err(); err != nil {
				return err
			}
			add := func() error {
				for {
					err := client.Watch(ctx, func(own *redis.Tx) error {
						found, err := own.Get(ctx, key).Int()
						if err != nil {
							return err
						}
						_, err = own.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, found+1, 0).Err() })
						return err
					}, key)
					if !errors.Is(err, redis.TxFailedErr) {
						return err
					}
				}
			}
			failures := make([]error, workers)
			var group sync.WaitGroup
			for at := range workers {
				group.Go(func() {
					for range rounds {
						failures[at] = errors.Join(failures[at], add())
					}
				})
			}
			group.Wait()
			found, err := client.Get(ctx, key).Int()
			return errors.Join(append(failures, err, equal("the sum", found, workers*rounds))...)
		},
	}
}

func ofGomemcache(address string) map[string]recipe {
	client := memcache.New(address)
	client.Timeout = recipeLimit
	return map[string]recipe{
		"values, counters and tokens": func(context.Context) error {
			_ = client.Delete("gm:k")
			failures := []error{client.Add(&memcache.Item{Key: "gm:k", Value: []byte("1"), Flags: 7, Expiration: 100})}
			failures = append(failures, equal("a second add", client.Add(&memcache.Item{Key: "gm:k"}), memcache.ErrNotStored))
			counted, err := client.Increment("gm:k", 5)
			failures = append(failures, err, equal("the count", counted, uint64(6)), client.Touch("gm:k", 50))
			item, err := client.Get("gm:k")
			if err != nil {
				return err
			}
			item.Value = []byte("z")
			failures = append(failures, equal("flags", item.Flags, uint32(7)), client.CompareAndSwap(item))
			failures = append(failures, equal("an old token", client.CompareAndSwap(item), memcache.ErrCASConflict))
			failures = append(failures, client.Append(&memcache.Item{Key: "gm:k", Value: []byte("y")}))
			several, err := client.GetMulti([]string{"gm:k", "gm:none"})
			if err != nil {
				return err
			}
			failures = append(failures, equal("found", len(several), 1), equal("the value", string(several["gm:k"].Value), "zy"))
			item, err = client.GetAndTouch("gm:k", 100)
			failures = append(failures, err, equal("touched", string(item.Value), "zy"), client.Delete("gm:k"))
			return errors.Join(append(failures, equal("deleted", client.Delete("gm:k"), memcache.ErrCacheMiss), client.Ping())...)
		},
	}
}

// The address lists of an argument.
func addresses(at int) []string {
	if len(os.Args) <= at || os.Args[at] == "" {
		return nil
	}
	return strings.Split(os.Args[at], ",")
}

func main() {
	nodes, redirecting := addresses(1), addresses(3)
	store := redis.NewClient(&redis.Options{Addr: nodes[len(nodes)-1]})
	all := func(client string, recipes map[string]recipe) {
		for name, recipe := range recipes {
			if !strings.Contains(client+": "+name, os.Getenv("ONLY")) {
				continue
			}
			play(client, name, recipe)
		}
	}
	all("rueidis", ofRueidis(nodes[0], false, store))
	all("go-redis", ofGoRedis(redis.NewClient(&redis.Options{Addr: nodes[0]}), store, "go"))
	all("gomemcache", ofGomemcache(addresses(2)[0]))
	if redirecting != nil {
		all("rueidis, cluster", ofRueidis(redirecting[0], true, store))
		all("go-redis, cluster", ofGoRedis(redis.NewClusterClient(&redis.ClusterOptions{Addrs: redirecting[:1]}), store, "gc"))
	}
}
