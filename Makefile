# Short names for what is done often. Nothing here is needed to build or test:
# go build ./... and go test ./... do that.

FUZZTIME ?= 30s

.PHONY: check test race noasm cross lint fuzz bench

check: ## all that must hold before a change is taken
	.ci/run

test:
	go test ./...

race:
	CGO_ENABLED=1 go test -race -short ./...

noasm:
	go test -tags noasm ./...

cross:
	GOOS=linux GOARCH=arm64 go vet ./...
	GOOS=darwin GOARCH=arm64 go vet ./...
	GOOS=windows GOARCH=amd64 go vet ./...

lint: ## needs golangci-lint on PATH
	golangci-lint run

fuzz: ## every fuzz target for FUZZTIME
	@set -e; for pkg in $$(go list ./...); do \
		for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "=== $$pkg $$target"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

bench:
	go run ./cmd/darkroom bench
