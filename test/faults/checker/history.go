package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
)

// Absent is how a history says that there was no record.
const Absent = "-"

// Step is one change or read of one key; see history.py.
type Step struct {
	Do       string  `json:"do"`
	Key      int     `json:"key"`
	With     string  `json:"with"`
	Expected string  `json:"expected"`
	Saw      *string `json:"saw"`
}

// Operation is a line of a history.
type Operation struct {
	Client     int             `json:"client"`
	Connection string          `json:"connection"`
	Door       string          `json:"door"`
	Node       int             `json:"node"`
	Memory     int             `json:"memory"`
	Part       string          `json:"part"`
	Call       int64           `json:"call"`
	Return     int64           `json:"return"`
	Outcome    string          `json:"outcome"`
	Level      string          `json:"level"`
	Steps      []Step          `json:"steps"`
	WrongClock bool            `json:"wrong_clock"`
	Process    *Process        `json:"process"`
	Note       json.RawMessage `json:"note"`
}

// IsRead is true if the operation changes nothing.
func (o Operation) IsRead() bool {
	for _, step := range o.Steps {
		switch step.Do {
		case "get", "lookup", "owner", "members":
		default:
			return false
		}
	}
	return true
}

// IsOrdered is true if the operation took its place in the log, or its reads
// promise as much.
func (o Operation) IsOrdered() bool {
	return o.Level == "log" || o.Level == "linear"
}

// memory is a node, and its start if it forgets what its clients have seen.
func (o Operation) memory() [2]int {
	return [2]int{o.Node, o.Memory}
}

// Kind is the letter of a part's name that says how its keys are used.
func (o Operation) Kind() string {
	if at := strings.IndexByte(o.Part, '.'); at >= 0 && at+1 < len(o.Part) {
		return o.Part[at+1 : at+2]
	}
	return ""
}

// Read returns all operations of a history.
func Read(source io.Reader) ([]Operation, error) {
	var found []Operation
	lines := bufio.NewReaderSize(source, 1<<20)
	for number := 1; ; number++ {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		var operation Operation
		if err := json.Unmarshal(line, &operation); err != nil {
			return nil, fmt.Errorf("line %d: %v", number, err)
		}
		if operation.Note == nil {
			found = append(found, operation)
		}
	}
}

// ByPart sorts operations into the parts that they are about, each in the
// order of their beginnings.
func ByPart(operations []Operation) map[string][]Operation {
	parts := map[string][]Operation{}
	for _, operation := range operations {
		parts[operation.Part] = append(parts[operation.Part], operation)
	}
	for _, part := range parts {
		part := part
		sort.SliceStable(part, func(i, j int) bool { return part[i].Call < part[j].Call })
	}
	return parts
}
