//! Measurements: each figure beside a baseline measured in the same run, as a table of ratios and as JSON. Nothing
//! here is asserted; a shared machine is no judge. Read [`report::Report`] and [`world::World`].

mod acp;
mod baseline;
mod daemon;
mod hook;
mod http;
mod idle;
mod report;
mod samples;
mod spool;
mod world;
mod writer;

use std::path::Path;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::steps::target_dir;
use report::Report;
use world::World;

/// As in the daemon that ships: the writer is measured within this program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Bytes of one event's body in every baseline and of one ask's input.
const BODY: usize = 600;

/// Requesters that ask at once.
const REQUESTERS: usize = 128;

/// What the release build of this program is called with.
#[derive(Subcommand)]
pub(crate) enum Part {
    /// Measure everything and write the report
    Run {
        /// Fewer samples, for a first look
        #[arg(long)]
        quick: bool,
        /// Measure only this part; may be given more than once
        #[arg(long, value_parser = PARTS.map(|(name, _)| name))]
        only: Vec<String>,
    },
    /// Child: an ACP agent that sends every message back
    AcpAgent,
    /// Child: sends every message back
    Echo { socket: String },
    /// Child: raises asks and waits for their outcomes
    Requester { socket: String, requesters: usize, asks: usize },
    /// Child: answers every ask that it sees
    Answerer {
        socket: String,
        /// What came meanwhile is answered in one request
        #[arg(long)]
        together: bool,
    },
}

/// Runs one part of the measurements.
pub(crate) fn run(root: &Path, part: Part) -> Result<()> {
    match part {
        Part::Run { quick, only } => measure(root, quick, &only),
        Part::AcpAgent => acp::agent(),
        Part::Echo { socket } => baseline::echo(&socket),
        Part::Requester { socket, requesters, asks } => daemon::requester(&socket, requesters, asks),
        Part::Answerer { socket, together } => daemon::answerer(&socket, together),
    }
}

type Measure = fn(&World, &mut Report);

/// The parts in the order in which they are measured, with the names that `--only` takes.
const PARTS: [(&str, Measure); 7] = [
    ("hook", hook::measure),
    ("round-trip", daemon::measure_round_trip),
    ("http", daemon::measure_crowd),
    ("writer", writer::measure),
    ("acp", acp::measure),
    ("spool", spool::measure),
    ("idle", idle::measure),
];

fn measure(root: &Path, quick: bool, only: &[String]) -> Result<()> {
    let world = World::new(root, quick)?;
    let mut report = Report::new(quick);
    for (_, measure) in PARTS.iter().filter(|(name, _)| only.is_empty() || only.iter().any(|o| o == name)) {
        measure(&world, &mut report);
    }
    report.print();
    report.write(&target_dir(root).join("bench.json"))?;
    match report.failures() {
        0 => Ok(()),
        failures => bail!("{failures} measurements failed"),
    }
}
