// A monitor of which nothing is ours: with -log it reads a whole log below that address, checks its newest checkpoint
// and every entry, and prints the entries; without, it says of each note on stdin, a JSON string a line, whether the
// policy is satisfied. Without a policy it says of each proof on stdin, a JSON object a line, what of it holds.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func main() {
	file := flag.String("policy", "", "")
	base := flag.String("log", "", "")
	flag.Parse()
	if err := run(*file, *base); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file, base string) error {
	if file == "" {
		return eachLine(check)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	policy, err := torchwood.ParsePolicy(text)
	if err != nil {
		return err
	}
	if base != "" {
		return follow(policy, base)
	}
	return eachLine(func(note string) any {
		_, _, err := torchwood.VerifyCheckpoint([]byte(note), policy)
		return err == nil
	})
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

// Answers each line of stdin, JSON, by another.
func eachLine[Line any](answer func(Line) any) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var line Line
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return err
		}
		if err := out.Encode(answer(line)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A checkpoint, an entry with its audit path, and an earlier tree with the path between both. Hashes are hexadecimal.
type proof struct {
	Key, Note, Entry string
	Index            int64
	Inclusion        []string
	Before           struct {
		Size int64
		Root string
	}
	Consistency []string
}

type verdict struct {
	Note        bool `json:"note"`
	Inclusion   bool `json:"inclusion"`
	Consistency bool `json:"consistency"`
}

func check(p proof) any {
	verifier, err := note.NewVerifier(p.Key)
	if err != nil {
		return verdict{}
	}
	opened, err := note.Open([]byte(p.Note), note.VerifierList(verifier))
	if err != nil {
		return verdict{}
	}
	tree, err := torchwood.ParseCheckpoint(opened.Text)
	if err != nil || tree.Origin != verifier.Name() || tree.Extension != "" {
		return verdict{}
	}
	said := verdict{Note: true}
	leaf := tlog.RecordHash([]byte(p.Entry))
	if path, ok := hashes(p.Inclusion...); ok {
		said.Inclusion = tlog.CheckRecord(path, tree.N, tree.Hash, p.Index, leaf) == nil
	}
	path, ok := hashes(p.Consistency...)
	root, isHash := hashes(p.Before.Root)
	if ok && isHash {
		said.Consistency = tlog.CheckTree(path, tree.N, tree.Hash, p.Before.Size, root[0]) == nil
	}
	return said
}

func hashes(texts ...string) ([]tlog.Hash, bool) {
	found := make([]tlog.Hash, len(texts))
	for i, text := range texts {
		bytes, err := hex.DecodeString(text)
		if err != nil || len(bytes) != tlog.HashSize {
			return nil, false
		}
		found[i] = tlog.Hash(bytes)
	}
	return found, true
}
