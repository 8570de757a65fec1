package main

import (
	"crypto/mldsa"
	"flag"
	"log/slog"
	"net/http"
	"os"

	"filippo.io/torchwood/internal/witness"
)

func main() {
	db := flag.String("db", "", "")
	name := flag.String("name", "", "")
	seed := flag.String("seed", "", "")
	listen := flag.String("listen", "", "")
	flag.Parse()
	key, err := keyIn(*seed)
	if err == nil {
		var w *witness.Witness
		if w, err = witness.NewWitness(*db, *name, key, slog.Default()); err == nil {
			slog.Info("verifier key", "vkey", w.VerifierKey())
			err = http.ListenAndServe(*listen, http.MaxBytesHandler(w, 10*1024))
		}
	}
	slog.Error("witness", "err", err)
	os.Exit(1)
}

func keyIn(file string) (*mldsa.PrivateKey, error) {
	if seed, err := os.ReadFile(file); err == nil {
		return mldsa.NewPrivateKey(mldsa.MLDSA44(), seed)
	}
	key, err := mldsa.GenerateKey(mldsa.MLDSA44())
	if err == nil {
		err = os.WriteFile(file, key.Bytes(), 0o600)
	}
	return key, err
}
