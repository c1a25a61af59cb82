// Writes by go-redis' ClusterClient. See ../drive.py for what a program does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	workers   = 2
	pause     = time.Millisecond
	afterFail = 10 * time.Millisecond
)

type worker struct {
	acknowledged, counted int
	last                  time.Time
	longest               time.Duration
}

type state struct {
	sync.Mutex
	workers [workers]worker
	errors  map[string]int
}

func (s *state) attempt(at int, do func() error, count func(*worker)) bool {
	err := do()
	s.Lock()
	defer s.Unlock()
	if err != nil {
		s.errors[err.Error()]++
		return false
	}
	w := &s.workers[at]
	now := time.Now()
	w.longest = max(w.longest, now.Sub(w.last))
	w.last = now
	count(w)
	return true
}

func (s *state) write(at int, client *redis.ClusterClient, prefix string) {
	ctx := context.Background()
	for number := 0; ; number++ {
		key := fmt.Sprintf("%s:%d:%d", prefix, at, number)
		set := func() error { return client.Set(ctx, key, strconv.Itoa(number), 0).Err() }
		for !s.attempt(at, set, func(w *worker) { w.acknowledged++ }) {
			time.Sleep(afterFail)
		}
		incr := func() error { return client.Incr(ctx, fmt.Sprintf("%s:%d:count", prefix, at)).Err() }
		if !s.attempt(at, incr, func(w *worker) { w.counted++ }) {
			time.Sleep(afterFail)
		}
		time.Sleep(pause)
	}
}

func (s *state) report() {
	s.Lock()
	defer s.Unlock()
	now := time.Now()
	var acknowledged, counted []int
	longest := time.Duration(0)
	for at := range s.workers {
		w := &s.workers[at]
		acknowledged = append(acknowledged, w.acknowledged)
		counted = append(counted, w.counted)
		longest = max(longest, w.longest, now.Sub(w.last))
		w.longest, w.last = 0, now
	}
	line, _ := json.Marshal(map[string]any{
		"acknowledged": acknowledged, "counted": counted,
		"longest_ms": longest.Milliseconds(), "errors": s.errors,
	})
	fmt.Println(string(line))
}

func main() {
	options := redis.ClusterOptions{Addrs: strings.Split(os.Args[2], ",")}
	if strings.HasSuffix(os.Args[1], "+refresh") {
		options.ClusterStateReloadInterval = time.Second
	}
	client := redis.NewClusterClient(&options)
	s := &state{errors: map[string]int{}}
	for at := range s.workers {
		s.workers[at].last = time.Now()
		go s.write(at, client, os.Args[3])
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		s.report()
	}
	s.report()
}
