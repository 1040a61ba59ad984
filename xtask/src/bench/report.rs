//! The table that is printed and the JSON file that is kept.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::samples::Samples;

/// On which side of the target the ratio has to be.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure beside its baseline.
struct Row {
    what: String,
    measured: String,
    baseline: String,
    ratio: f64,
    target: Target,
}

/// Everything that was measured.
pub(crate) struct Report {
    quick: bool,
    failures: usize,
    rows: Vec<Row>,
    absent: Vec<(String, String)>,
    samples: Map<String, Value>,
}

impl Report {
    pub(crate) fn new(quick: bool) -> Self {
        Self { quick, failures: 0, rows: Vec::new(), absent: Vec::new(), samples: Map::new() }
    }

    /// A row of the table: `ratio` is measured over baseline, in whatever unit both have.
    pub(crate) fn row(&mut self, what: &str, measured: String, baseline: String, ratio: f64, target: Target) {
        println!("{what}: {measured} against {baseline}, {ratio:.2}");
        self.rows.push(Row { what: what.to_owned(), measured, baseline, ratio, target });
    }

    /// A row whose measurement failed: the report is written all the same, and the run fails.
    pub(crate) fn failed(&mut self, what: &str, error: &anyhow::Error) {
        self.failures += 1;
        self.absent(what, &format!("{error:#}"));
    }

    /// How many measurements failed.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// A row that cannot be measured on this machine, with the reason.
    fn absent(&mut self, what: &str, why: &str) {
        println!("{what}: not measured, {why}");
        self.absent.push((what.to_owned(), why.to_owned()));
    }

    /// Keeps the distribution behind a figure for the JSON file.
    pub(crate) fn samples(&mut self, what: &str, samples: &Samples) {
        self.samples.insert(what.to_owned(), samples.json());
    }

    /// Keeps a single figure for the JSON file.
    pub(crate) fn figure(&mut self, what: &str, value: Value) {
        self.samples.insert(what.to_owned(), value);
    }

    /// The table, with whether each target is met.
    pub(crate) fn print(&self) {
        println!();
        let head = ["what", "measured", "baseline", "ratio", "target", ""].map(str::to_owned);
        let mut lines = vec![head];
        for row in &self.rows {
            let mark = if row.met() { "met" } else { "NOT MET" };
            let (what, measured, baseline) = (row.what.clone(), row.measured.clone(), row.baseline.clone());
            lines.push([what, measured, baseline, format!("{:.2}", row.ratio), row.aim(), mark.to_owned()]);
        }
        for (what, why) in &self.absent {
            let mut line = [const { String::new() }; 6];
            line[0].clone_from(what);
            line[1] = format!("not measured: {why}");
            lines.push(line);
        }
        let width = |column: usize| {
            let full = lines.iter().filter(|line| !line[3].is_empty());
            full.map(|line| line[column].chars().count()).max().unwrap_or(0)
        };
        let widths: [usize; 6] = std::array::from_fn(width);
        for line in &lines {
            let cells: Vec<_> =
                line.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            println!("{}", cells.join("  ").trim_end());
        }
        if self.quick {
            println!("few samples (--quick): a first look, no measurement");
        }
    }

    /// Writes the whole report.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| {
                json!({
                    "what": row.what, "measured": row.measured, "baseline": row.baseline,
                    "ratio": row.ratio, "target": row.aim(), "met": row.met(),
                })
            })
            .collect();
        let absent: Vec<_> =
            self.absent.iter().map(|(what, why)| json!({ "what": what, "why": why })).collect();
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let report = json!({
            "quick": self.quick,
            "machine": { "cores": cores, "load_after": load.trim() },
            "rows": rows,
            "not_measured": absent,
            "samples": self.samples,
        });
        let text = serde_json::to_string_pretty(&report)?;
        fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))?;
        println!("written to {}", path.display());
        Ok(())
    }
}

impl Row {
    fn met(&self) -> bool {
        match self.target {
            Target::AtMost(most) => self.ratio <= most,
            Target::AtLeast(least) => self.ratio >= least,
        }
    }

    fn aim(&self) -> String {
        match self.target {
            Target::AtMost(most) => format!("≤ {most}"),
            Target::AtLeast(least) => format!("≥ {least}"),
        }
    }
}

/// Microseconds for people.
pub(crate) fn micros(value: f64) -> String {
    if value >= 1000.0 { format!("{:.2} ms", value / 1000.0) } else { format!("{value:.0} µs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_on_its_side() {
        let row = |ratio, target| Row {
            what: String::new(),
            measured: String::new(),
            baseline: String::new(),
            ratio,
            target,
        };
        assert!(row(1.5, Target::AtMost(1.5)).met());
        assert!(!row(1.6, Target::AtMost(1.5)).met());
        assert!(row(0.6, Target::AtLeast(0.6)).met());
        assert!(!row(0.5, Target::AtLeast(0.6)).met());
    }
}
