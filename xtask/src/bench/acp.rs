//! The ACP proxy: what it adds to a message and to a very long line, against the same two peers on a raw pipe. Both
//! peers read the JSON and write it anew, as real ones do.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::BODY;
use super::report::{Report, Target, micros};
use super::samples::Samples;
use super::world::World;

const MESSAGE: &str = "ACP proxy, added per message";
const LONG: &str = "ACP proxy, a line of 1 MB";
/// Most that may be added to a message, in microseconds.
const MOST_ADDED: f64 = 150.0;

pub(crate) fn measure(world: &World, report: &mut Report) {
    if let Err(error) = against_a_pipe(world, report) {
        report.failed(MESSAGE, &error);
    }
}

/// Child: an agent that sends every message back.
pub(crate) fn agent() -> Result<()> {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut output = std::io::BufWriter::new(output);
    for line in BufReader::new(input).lines() {
        let message: Value = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut output, &message)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

fn against_a_pipe(world: &World, report: &mut Report) -> Result<()> {
    let place = world.place("acp")?;
    // Messages do not concern the daemon.
    std::fs::write(place.join("config.toml"), "[daemon]\nautostart = false\n")?;
    let own = std::env::current_exe().context("this program has no path")?;
    let mut raw = World::clean(&own, &place);
    raw.args(["bench-part", "acp-agent"]);
    let mut proxied = World::clean(world.askd(), &place);
    proxied.arg("acp").arg("--").arg(&own).args(["bench-part", "acp-agent"]);
    let (mut raw, mut proxied) = (Peer::start(&mut raw)?, Peer::start(&mut proxied)?);

    let (short, long) = (update(BODY), update(1_000_000));
    let mut samples: [Samples; 4] = Default::default();
    for (n, line) in [&short, &long].into_iter().enumerate() {
        for turn in 0..world.count(if n == 0 { 3000 } else { 200 }) + 20 {
            let mut warm = Samples::default();
            let [a, b] = if turn < 20 { [0, 0] } else { [2 * n, 2 * n + 1] };
            (if turn < 20 { &mut warm } else { &mut samples[a] }).time(|| raw.echo(line))?;
            (if turn < 20 { &mut warm } else { &mut samples[b] }).time(|| proxied.echo(line))?;
        }
    }
    let names = ["acp_raw", "acp_proxied", "acp_raw_1mb", "acp_proxied_1mb"];
    for (name, samples) in names.iter().zip(&samples) {
        report.samples(name, samples);
    }
    let [raw, proxied, raw_long, proxied_long] = samples;
    // A round trip passes the proxy twice.
    let added = (proxied.p50() - raw.p50()) / 2.0;
    let baseline = format!("most {}", micros(MOST_ADDED));
    report.row(MESSAGE, micros(added), baseline, added / MOST_ADDED, Target::AtMost(1.0));
    let (own, base) = (proxied_long.p50(), raw_long.p50());
    report.row(LONG, micros(own), format!("raw pipe {}", micros(base)), own / base, Target::AtMost(1.3));
    Ok(())
}

/// A message of the kind that a session is made of.
fn update(bytes: usize) -> String {
    let text = "lorem ipsum ".repeat(bytes / 12);
    let update = json!({"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":text}});
    json!({"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":update}}).to_string()
        + "\n"
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Peer {
    fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("no pipes");
        };
        Ok(Self { child, input, output: BufReader::new(output), line: String::new() })
    }

    fn echo(&mut self, line: &str) -> Result<()> {
        self.input.write_all(line.as_bytes())?;
        self.line.clear();
        self.output.read_line(&mut self.line)?;
        let message: Value = serde_json::from_str(&self.line)?;
        if message["method"] != "session/update" {
            bail!("the agent said {message}");
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
