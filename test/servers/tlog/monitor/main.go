// A monitor of which nothing is ours: with -log it reads a whole log below that address, checks its newest checkpoint and every entry, and
// prints the entries; without, it says of each note on stdin, a JSON string a line, whether the policy is satisfied.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	file := flag.String("policy", "", "")
	base := flag.String("log", "", "")
	flag.Parse()
	text, err := os.ReadFile(*file)
	var policy torchwood.Policy
	if err == nil {
		policy, err = torchwood.ParsePolicy(text)
	}
	if err == nil && *base != "" {
		err = follow(policy, *base)
	} else if err == nil {
		err = judge(policy)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func follow(policy torchwood.Policy, base string) error {
	fetcher, err := torchwood.NewTileFetcher(base)
	if err != nil {
		return err
	}
	client, err := torchwood.NewClient(fetcher)
	if err != nil {
		return err
	}
	signed, err := fetcher.ReadEndpoint(context.Background(), "checkpoint")
	if err != nil {
		return err
	}
	checkpoint, _, err := torchwood.VerifyCheckpoint(signed, policy)
	if err != nil {
		return err
	}
	tree := tlog.Tree{N: checkpoint.N, Hash: checkpoint.Hash}
	for _, entry := range client.AllEntries(context.Background(), tree, 0) {
		fmt.Println(string(entry))
	}
	return client.Err()
}

func judge(policy torchwood.Policy) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var note string
		if err := json.Unmarshal(lines.Bytes(), &note); err != nil {
			return err
		}
		_, _, err := torchwood.VerifyCheckpoint([]byte(note), policy)
		fmt.Println(err == nil)
	}
	return lines.Err()
}
