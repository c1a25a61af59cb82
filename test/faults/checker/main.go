// Checker says whether the history of a run is one that the store may have.
//
//	checker [-limit 30s] [-bound 1s] HISTORY...
//
// It prints a line of JSON for each history. Its status is 1 if one of them
// breaks a promise, 2 if it cannot be read. History.py says what a history is.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// Result is what is printed about a history.
type Result struct {
	Parts      int                 `json:"parts"`
	Operations int                 `json:"operations"`
	Unknown    int                 `json:"unknown"`
	Failed     int                 `json:"failed"`
	Reads      int                 `json:"reads"`
	Complaints map[string][]string `json:"complaints"`
	Undecided  []string            `json:"undecided"`
	Open       int                 `json:"open"`
	// Groups of which a read has seen a part of a step.
	Halves int `json:"halves"`
}

// Check applies all rules to a history.
func Check(operations []Operation, limit, bound time.Duration) Result {
	result := Result{Complaints: map[string][]string{}, Undecided: []string{}}
	for _, operation := range operations {
		if operation.Process != nil {
			continue
		}
		result.Operations++
		switch {
		case operation.Outcome == "unknown":
			result.Unknown++
		case operation.Outcome == "failed":
			result.Failed++
		case operation.IsRead():
			result.Reads++
		}
	}
	parts := ByPart(operations)
	result.Parts = len(parts)
	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		part := parts[name]
		complain := func(complaints ...string) {
			if len(complaints) > 0 {
				result.Complaints[name] = append(result.Complaints[name], complaints...)
			}
		}
		if kind := part[0].Kind(); kind == "n" || kind == "m" {
			if processes, operations := Processes(part); len(operations) > 0 {
				order, isHalf, complaints := Named(kind, processes, operations, limit, bound.Nanoseconds())
				complain(complaints...)
				if isHalf {
					result.Halves++
				}
				if order == porcupine.Unknown {
					result.Undecided = append(result.Undecided, name)
				}
			}
			continue
		}
		// Records that expire change by themselves.
		if part[0].Kind() != "e" {
			switch Linearize(part, limit) {
			case porcupine.Illegal:
				complain("no order explains the answers")
			case porcupine.Unknown:
				result.Undecided = append(result.Undecided, name)
			case porcupine.Ok:
				// There are many orders of reads that may be early, so this
				// may be left open; Sessions knows the bound as well.
				switch Bound(part, limit, bound.Nanoseconds()) {
				case porcupine.Illegal:
					complain("no order explains the bounded reads")
				case porcupine.Unknown:
					result.Open++
				}
			}
		}
		complain(Sessions(part, bound.Nanoseconds())...)
		complain(Origins(part)...)
		complain(Expiry(part)...)
	}
	return result
}

func main() {
	limit := flag.Duration("limit", 30*time.Second, "how long to look for an order of the operations of one part")
	bound := flag.Duration("bound", time.Second, "how old a bounded read may be")
	flag.Parse()
	status := 0
	for _, path := range flag.Args() {
		file, err := os.Open(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		operations, err := Read(file)
		file.Close()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
			os.Exit(2)
		}
		result := Check(operations, *limit, *bound)
		line, _ := json.Marshal(result)
		fmt.Println(string(line))
		if len(result.Complaints) > 0 {
			status = 1
		}
	}
	os.Exit(status)
}
