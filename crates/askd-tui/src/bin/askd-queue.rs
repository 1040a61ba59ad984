//! The queue alone, on the daemon that the environment names: for trying it and for its tests. It starts no daemon.

use std::io::{Read, Write};
use std::process::ExitCode;

use askd_client::Places;
use askd_tui::{Notify, Options, run};

fn main() -> ExitCode {
    let places = match Places::from_env() {
        Ok(places) => places,
        Err(error) => return fail(&error.to_string()),
    };
    let mut options = Options::default();
    match std::env::args().nth(1).as_deref() {
        Some("--osc9") => options.notify = Notify::Osc9,
        Some("--osc777") => options.notify = Notify::Osc777,
        Some("--broken-feed") => options.feed = Some(Box::new(Broken)),
        _ => {}
    }
    match run(&places, options) {
        Ok(left) => {
            let _ = writeln!(std::io::stdout(), "{}", left.text());
            if left.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(text: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "askd-queue: {text}");
    ExitCode::FAILURE
}

/// What a fault in another thread does to the terminal.
struct Broken;

impl Read for Broken {
    #[expect(clippy::panic, reason = "it is what this is for")]
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        panic!("broken on purpose")
    }
}
