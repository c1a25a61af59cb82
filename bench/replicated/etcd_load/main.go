// Etcd_load loads a member of etcd as bench/load loads a server: by closed-loop
// clients, through etcd's own Go client.
//
//	etcd_load -endpoint 127.0.0.1:2379 -operation put -clients 50 -seconds 1
//
// Like the program `benchmark` of etcd, it shares each connection between some
// clients. It connects, prints `ready`, waits for a line on standard input,
// works for the given time, prints one line of JSON, and ends when standard
// input ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"sort"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Report is what bench/load prints about a run.
type Report struct {
	Requests          int     `json:"requests"`
	Seconds           float64 `json:"seconds"`
	RequestsPerSecond float64 `json:"requests_per_second"`
	Errors            int     `json:"errors"`
	P50Us             float64 `json:"p50_us"`
	P99Us             float64 `json:"p99_us"`
	MaxUs             float64 `json:"max_us"`
}

type options struct {
	endpoint, operation    string
	clients, perConnection int
	keys, valueBytes       int
	seconds                float64
	seed                   int64
}

func main() {
	var o options
	flag.StringVar(&o.endpoint, "endpoint", "", "the member to load")
	flag.StringVar(&o.operation, "operation", "put", "put, get, get-serializable, or fill: all keys in order")
	flag.IntVar(&o.clients, "clients", 1, "concurrent clients")
	flag.IntVar(&o.perConnection, "per-connection", 10, "clients that share a connection")
	flag.IntVar(&o.keys, "keys", 100_000, "keys, drawn at random")
	flag.IntVar(&o.valueBytes, "value-bytes", 100, "length of a value")
	flag.Float64Var(&o.seconds, "seconds", 1, "duration")
	flag.Int64Var(&o.seed, "seed", 1, "seed of the keys")
	flag.Parse()
	connections := connect(o)
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		fail(err)
	}
	line, err := json.Marshal(run(o, connections))
	if err != nil {
		fail(err)
	}
	fmt.Println(string(line))
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// connect opens all connections and makes a request on each.
func connect(o options) []*clientv3.Client {
	count := (o.clients + o.perConnection - 1) / o.perConnection
	connections := make([]*clientv3.Client, count)
	for number := range connections {
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{o.endpoint}, DialTimeout: 10 * time.Second})
		if err != nil {
			fail(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err := client.Get(ctx, "first"); err != nil {
			fail(err)
		}
		cancel()
		connections[number] = client
	}
	return connections
}

// run lets all clients work until the time is over.
func run(o options, connections []*clientv3.Client) Report {
	var together sync.WaitGroup
	latencies, errors := make([][]float64, o.clients), make([]int, o.clients)
	started := time.Now()
	deadline := started.Add(time.Duration(o.seconds * float64(time.Second)))
	for number := 0; number < o.clients; number++ {
		together.Add(1)
		go func(number int) {
			defer together.Done()
			client := connections[number/o.perConnection]
			latencies[number], errors[number] = work(o, client, number, deadline)
		}(number)
	}
	together.Wait()
	report := Report{Seconds: time.Since(started).Seconds()}
	var all []float64
	for number := range latencies {
		all = append(all, latencies[number]...)
		report.Errors += errors[number]
	}
	sort.Float64s(all)
	report.Requests = len(all)
	report.RequestsPerSecond = float64(len(all)) / report.Seconds
	if len(all) > 0 {
		report.P50Us, report.P99Us, report.MaxUs = all[len(all)/2], all[len(all)*99/100], all[len(all)-1]
	}
	return report
}

// work makes one request after the other, and returns the microseconds of each.
func work(o options, client *clientv3.Client, number int, deadline time.Time) ([]float64, int) {
	var latencies []float64
	failed := 0
	random := rand.New(rand.NewSource(o.seed*1000 + int64(number)))
	value := string(make([]byte, o.valueBytes))
	ctx := context.Background()
	isFilling := o.operation == "fill"
	for next := number; ; next += o.clients {
		begin := time.Now()
		if isFilling && next >= o.keys || !isFilling && !begin.Before(deadline) {
			break
		}
		key := fmt.Sprintf("key:%012d", random.Intn(o.keys))
		if isFilling {
			key = fmt.Sprintf("key:%012d", next)
		}
		var err error
		switch o.operation {
		case "put", "fill":
			_, err = client.Put(ctx, key, value)
		case "get":
			_, err = client.Get(ctx, key)
		case "get-serializable":
			_, err = client.Get(ctx, key, clientv3.WithSerializable())
		default:
			err = fmt.Errorf("there is no operation %q", o.operation)
			fail(err)
		}
		if err != nil {
			failed++
			continue
		}
		latencies = append(latencies, float64(time.Since(begin).Nanoseconds())/1e3)
	}
	return latencies, failed
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "etcd_load:", err)
	os.Exit(1)
}
