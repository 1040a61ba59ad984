//! The project's own chores, `cargo xtask …`; never part of what ships. Read [`steps::Steps`], which runs and
//! times the parts of a chore, and [`reqs::Map`], the requirement map.

#[cfg(feature = "bench")]
mod bench;
mod chores;
mod reqs;
mod sources;
mod steps;
mod tools;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Tests, simulation, requirement map and measurements of askd")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Everything that has to pass: format, lints, tests, simulation, requirement map, dependency check, real agents
    Test {
        /// Leave out the whole-system tests with real agents
        #[arg(long)]
        fast: bool,
    },
    /// Only the whole-system tests with real agents
    E2e {
        /// Run only tests whose name contains this
        filter: Option<String>,
    },
    /// The simulated world
    Sim {
        /// How many seeds to run, from the first one on
        #[arg(long, default_value_t = chores::SEEDS)]
        seeds: u64,
        /// Replay this one seed and print its story
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Check docs/requirements.md against the tests in the tree
    Reqs {
        /// First write the names of tests that begin with a requirement's id into its row
        #[arg(long)]
        write: bool,
    },
    /// Measure against baselines of the same run: a table of ratios, and target/bench.json
    Bench {
        /// Fewer samples, for a first look
        #[arg(long)]
        quick: bool,
        /// Measure only this part: hook, round-trip, http, writer, acp, spool or idle; may be given more than once
        #[arg(long)]
        only: Vec<String>,
    },
    /// Build what ships into target/dist: askd, and askd-hook linked statically
    Dist,
    /// Install what the tests need and is missing
    Setup,
    /// What the release build of this program does for `bench`
    #[cfg(feature = "bench")]
    #[command(hide = true, subcommand)]
    BenchPart(bench::Part),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = steps::workspace_root()?;
    match Cli::parse().chore {
        Chore::Test { fast } => chores::test(&root, fast),
        Chore::E2e { filter } => chores::e2e(&root, filter.as_deref()),
        Chore::Sim { seeds, seed } => chores::sim(&root, seeds, seed),
        Chore::Reqs { write } => chores::reqs(&root, write),
        Chore::Bench { quick, only } => chores::bench(&root, quick, &only),
        Chore::Dist => chores::dist(&root),
        Chore::Setup => tools::ensure(&root, &tools::Need::ALL),
        #[cfg(feature = "bench")]
        Chore::BenchPart(part) => bench::run(&root, part),
    }
}
