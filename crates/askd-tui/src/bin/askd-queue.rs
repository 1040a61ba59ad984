//! The queue alone, on the daemon that the environment names: for trying it and for its tests. It starts no daemon.

use std::io::Write;
use std::process::ExitCode;

use askd_client::Places;
use askd_tui::{Notify, Options, run};

fn main() -> ExitCode {
    let places = match Places::from_env() {
        Ok(places) => places,
        Err(error) => return fail(&error.to_string()),
    };
    let notify = match std::env::args().nth(1).as_deref() {
        Some("--osc9") => Notify::Osc9,
        Some("--osc777") => Notify::Osc777,
        _ => Notify::Off,
    };
    match run(&places, Options { notify, ..Options::default() }) {
        Ok(left) => {
            let _ = writeln!(std::io::stdout(), "{}", left.text());
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "askd-queue: {text}");
    ExitCode::FAILURE
}
