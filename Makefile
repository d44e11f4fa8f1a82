# Thin: every target calls a script, and every script sets up what it needs by itself.
.DEFAULT_GOAL := help
.PHONY: help demo demo-etl up down test unit lint bench-ledger bench-buckets bench-control bench-tenants bench-workflows

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: ## the order workflow on a real Airflow, from kill to refund (4 minutes)
	@scripts/demo

demo-etl: ## the sales pipeline on a real Airflow, over both changes of the clocks (4 minutes)
	@scripts/demo-etl

up: ## an Airflow with the examples that stays up; prints URL and login
	@scripts/up

down: ## end what `make up` started
	@scripts/up --down

test: ## every tier of tests, with a summary; TIERS="unit lint" runs some
	@scripts/test $(TIERS)

unit: ## the core's tests in seconds, without Airflow
	@scripts/unit

lint: ## ruff, mypy, import contracts
	@scripts/lint

bench-ledger: ## what the ledger costs, beside bare inserts and dbos (5 minutes); ARGS="--quick" tries it
	@scripts/bench-ledger $(ARGS)

bench-control: ## what control costs, on a real Airflow (10 minutes); ARGS="--quick" tries it
	@scripts/bench-control $(ARGS)

bench-buckets: ## what routing into buckets costs Airflow (10 minutes); ARGS="--quick" tries it
	@scripts/bench-buckets $(ARGS)

bench-tenants: ## how long tenants wait beside a noisy one (12 minutes); ARGS="--quick" tries it
	@scripts/bench-tenants $(ARGS)

bench-workflows: ## what workflows cost beside plain Airflow Dags (12 minutes); ARGS="--quick" tries it
	@scripts/bench-workflows $(ARGS)
