// Reads through the cache of rueidis, which turns CLIENT TRACKING on by default, while another connection writes.
//
//	main ADDRESS [cluster]
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

const (
	keys   = 20
	rounds = 50
	limit  = 2 * time.Minute
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The value of a key by way of the cache, and whether it came from there.
func cached(ctx context.Context, client rueidis.Client, key string) (string, bool) {
	reply := client.DoCache(ctx, client.B().Get().Key(key).Cache(), time.Hour)
	value, err := reply.ToString()
	check(err)
	return value, reply.IsCacheHit()
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	option := rueidis.ClientOption{InitAddress: []string{os.Args[1]}, ForceSingleClient: len(os.Args) < 3}
	client, err := rueidis.NewClient(option)
	check(err)
	defer client.Close()
	option.DisableCache = true
	writer, err := rueidis.NewClient(option)
	check(err)
	defer writer.Close()
	hits := 0
	for round := range rounds {
		want := strconv.Itoa(round)
		for number := range keys {
			key := fmt.Sprintf("rueidis:{%d}", number)
			check(writer.Do(ctx, writer.B().Set().Key(key).Value(want).Build()).Error())
			// The invalidation is on its way.
			for value, _ := cached(ctx, client, key); value != want; value, _ = cached(ctx, client, key) {
				check(ctx.Err())
			}
			if _, hit := cached(ctx, client, key); hit {
				hits++
			}
		}
	}
	messages := make(chan string)
	go func() {
		_ = client.Receive(ctx, client.B().Subscribe().Channel("rueidis").Build(), func(message rueidis.PubSubMessage) {
			messages <- message.Message
		})
	}()
	for {
		check(writer.Do(ctx, writer.B().Publish().Channel("rueidis").Message("hello").Build()).Error())
		select {
		case <-messages:
			fmt.Printf("%d of %d repeated reads came from the cache\n", hits, rounds*keys)
			if hits == 0 {
				os.Exit(1)
			}
			return
		case <-time.After(10 * time.Millisecond):
			check(ctx.Err())
		}
	}
}
