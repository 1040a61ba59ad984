//! `askd run -- opencode …`: starts opencode with its server on a loopback port behind a password, raises what it asks at
//! askd, and brings the answers back. Its own dialog stays usable; nothing on disk changes.
//!
//! This process stays beside the agent: it has the same terminal, hands termination signals on and ends as the agent
//! ends.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use askd_agents::hidden::HiddenAdapter;
use askd_agents::opencode::Opencode;
use askd_agents::opencode::carry::{AgentEnd, Around, Carrier};
use askd_client::daemon::Door;
use askd_wire::{Attendance, Instance};
use rustix::process::{Pid, Signal, kill_process};

use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out;

use super::beside::{Signals, status_of, was_killed};
use super::run::{not_started, start_watch};

/// What opencode is asked to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The terminal UI.
    Terminal,
    /// A server that others attach to.
    Server,
    /// One message, without any prompt of its own.
    Once,
    /// An ACP agent: that is another command's.
    Acp,
    /// The terminal UI of a server that runs elsewhere.
    Attach,
    /// Something that asks nothing.
    Other,
}

/// Subcommands that ask nothing.
const OTHERS: [&str; 18] = [
    "completion",
    "mcp",
    "debug",
    "providers",
    "auth",
    "agent",
    "upgrade",
    "uninstall",
    "models",
    "stats",
    "export",
    "import",
    "github",
    "pr",
    "session",
    "plugin",
    "plug",
    "db",
];

/// Flags that take the next word.
const WITH_VALUE: [&str; 16] = [
    "--port",
    "--hostname",
    "--mdns-domain",
    "--cors",
    "--model",
    "-m",
    "--session",
    "-s",
    "--prompt",
    "--agent",
    "--log-level",
    "--replay-limit",
    "--dir",
    "--password",
    "-p",
    "--username",
];

/// How long the server behind `opencode run` may take to come up.
const UP: Duration = Duration::from_secs(60);
/// How long it may take to end.
const DOWN: Duration = Duration::from_secs(5);

/// Runs opencode; `exe`: this program's own file, `owner`: the mark of what it starts.
pub(crate) fn run(desk: &Desk, exe: &Path, owner: &str, program: &OsString, args: &[OsString]) -> Done {
    let texts: Vec<&str> = args.iter().map(|arg| arg.to_str().unwrap_or_default()).collect();
    let mode = mode(&texts);
    match mode {
        Mode::Acp => {
            return Err(Failure::wrong_use(
                "`opencode acp` speaks with an editor: put `askd acp -- opencode acp` into the editor's configuration",
            ));
        }
        Mode::Attach => {
            return Err(Failure::wrong_use(
                "the asks come from the server that this attaches to: start that one with `askd run -- opencode serve`",
            ));
        }
        _ => {}
    }
    let run = Run { desk, exe, owner, program };
    if mode == Mode::Other {
        return plain(&run, args);
    }
    if texts.contains(&"--auto") {
        out::tell("askd: --auto: opencode allows by itself what it would ask, so askd hears of nothing");
    }
    // Without a daemon opencode asks by itself, or rejects by itself; it runs all the same.
    let started = desk.start(Door::Ask);
    if let Err(why) = &started {
        out::tell(&format!("askd: {}; opencode asks by itself", out::one_line(&why.to_string())));
    }
    match mode {
        Mode::Once if started.is_err() || texts.contains(&"--auto") => plain(&run, args),
        Mode::Once => once(&run, args, &texts),
        _ => watched(&run, mode, args, &texts),
    }
}

/// One start of opencode.
struct Run<'a> {
    desk: &'a Desk,
    exe: &'a Path,
    owner: &'a str,
    program: &'a OsString,
}

impl Run<'_> {
    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.env("ASKD_OWNER", self.owner);
        command
    }

    fn spawn(&self, command: &mut Command) -> Result<Child, Failure> {
        command.spawn().map_err(|error| not_started(self.program, &error))
    }

    /// `quiet`: the agent has the screen.
    fn carrier(
        &self,
        adapter: &mut Opencode,
        own_prompt: Option<&'static str>,
        quiet: bool,
    ) -> Option<Carrier> {
        let say: fn(&str) = |text| out::tell(&out::safe(text));
        let around = Around {
            places: self.desk.places.clone(),
            exe: Some(self.exe.to_owned()),
            // Nobody below this process may answer: the agent and whatever it starts.
            instance: Instance { pid: std::process::id(), start: 0 },
            own_prompt,
            // `opencode run` without a terminal has nobody beside it.
            attendance: (own_prompt.is_none() && !io::stdin().is_terminal())
                .then_some(Attendance::Background),
            say: (!quiet).then_some(say),
        };
        match adapter.watch().and_then(|hidden| Carrier::start(hidden, around)) {
            Ok(carrier) => Some(carrier),
            Err(error) => {
                out::tell(&format!("askd: {error}; opencode asks by itself"));
                None
            }
        }
    }
}

fn adapter(args: &[&str]) -> Result<Opencode, Failure> {
    Opencode::new(args.iter().copied()).map_err(|error| Failure::unavailable(format!("opencode: {error}")))
}

/// As it is, without anything of askd but the mark: it takes this process over.
fn plain(run: &Run<'_>, args: &[OsString]) -> Done {
    let error = run.command().args(args).exec();
    Err(not_started(run.program, &error))
}

/// The terminal UI, or a server.
fn watched(run: &Run<'_>, mode: Mode, args: &[OsString], texts: &[&str]) -> Done {
    let mut adapter = adapter(texts)?;
    let mut command = run.command();
    let end = texts.iter().position(|arg| *arg == "--").unwrap_or(args.len());
    command.args(&args[..end]);
    adapter.prepare(&mut command);
    command.args(&args[end..]);
    let terminal = mode == Mode::Terminal && io::stdin().is_terminal() && io::stdout().is_terminal();
    if !terminal {
        start_watch(run.exe);
    }
    let signals = Signals::catch()?;
    let mut child = run.spawn(&mut command)?;
    let own_prompt = if mode == Mode::Terminal { "terminal" } else { "opencode" };
    let carrier = run.carrier(&mut adapter, Some(own_prompt), terminal);
    signals.hand_on_to(&child)?;
    wait(&mut child, carrier)
}

/// `opencode run`: by itself it rejects whatever is asked. So it attaches to a server of its own, and does not hear of
/// asks.
fn once(run: &Run<'_>, args: &[OsString], texts: &[&str]) -> Done {
    if texts.iter().any(|arg| *arg == "--attach" || arg.starts_with("--attach=")) {
        return Err(Failure::wrong_use(
            "the asks come from the server that this attaches to: start that one with `askd run -- opencode serve`",
        ));
    }
    let mut adapter = adapter(&[])?;
    let mut command = run.command();
    adapter.prepare(command.arg("serve"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    start_watch(run.exe);
    let signals = Signals::catch()?;
    let mut server = Server(run.spawn(&mut command)?);
    let said = Said::follow(server.0.stderr.take());
    let (address, (name, password)) =
        adapter.quiet().map_err(|error| Failure::unavailable(format!("opencode: {error}")))?;
    let carrier = run.carrier(&mut adapter, None, false);
    let lives = || matches!(server.0.try_wait(), Ok(None));
    let Some(carrier) = carrier.filter(|_| adapter.is_up(UP, lives)) else {
        said.show();
        out::tell("askd: opencode's server does not come up; opencode rejects by itself what it would ask");
        drop(server);
        return plain(run, args);
    };
    let at = texts.iter().position(|arg| *arg == "run").map_or(0, |at| at + 1);
    let mut command = run.command();
    command.args(&args[..at]).arg("--attach").arg(address).args(&args[at..]).env(name, password);
    let mut child = run.spawn(&mut command)?;
    signals.hand_on_to(&child)?;
    let ended =
        child.wait().map_err(|error| Failure::unavailable(format!("waiting for opencode: {error}")))?;
    server.end();
    carrier.finish(AgentEnd::Exited);
    Ok(status_of(ended))
}

/// The last lines that the server behind `opencode run` wrote; they matter when it does not come up.
struct Said(Arc<Mutex<VecDeque<String>>>);

impl Said {
    /// The last lines that are kept.
    const MOST: usize = 20;

    fn follow(stderr: Option<ChildStderr>) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&lines);
        if let Some(stderr) = stderr {
            // Without the thread there is nothing to show.
            let _ = thread::Builder::new().name("server-said".to_owned()).spawn(move || {
                let mut stderr = BufReader::new(stderr);
                let mut line = Vec::new();
                while matches!((&mut stderr).take(64 * 1024).read_until(b'\n', &mut line), Ok(1..)) {
                    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    kept.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
                    if kept.len() > Self::MOST {
                        kept.pop_front();
                    }
                    line.clear();
                }
            });
        }
        Self(lines)
    }

    fn show(&self) {
        for line in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            out::tell(&format!("opencode: {}", out::safe(line)));
        }
    }
}

/// The server behind `opencode run`; it does not outlive it.
struct Server(Child);

impl Server {
    fn end(&mut self) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let until = Instant::now() + DOWN;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// Waits for the agent's end and ends the same way.
fn wait(child: &mut Child, carrier: Option<Carrier>) -> Done {
    let ended =
        child.wait().map_err(|error| Failure::unavailable(format!("waiting for opencode: {error}")))?;
    if let Some(carrier) = carrier {
        carrier.finish(if was_killed(ended) { AgentEnd::Killed } else { AgentEnd::Exited });
    }
    Ok(status_of(ended))
}

fn mode(args: &[&str]) -> Mode {
    if args
        .iter()
        .take_while(|arg| **arg != "--")
        .any(|arg| matches!(*arg, "-h" | "--help" | "-v" | "--version"))
    {
        return Mode::Other;
    }
    let mut words = args.iter().take_while(|arg| **arg != "--");
    while let Some(word) = words.next() {
        if word.starts_with('-') {
            if WITH_VALUE.contains(word) {
                words.next();
            }
            continue;
        }
        return match *word {
            "serve" | "web" => Mode::Server,
            "run" => Mode::Once,
            "acp" => Mode::Acp,
            "attach" => Mode::Attach,
            other if OTHERS.contains(&other) => Mode::Other,
            // A project folder.
            _ => Mode::Terminal,
        };
    }
    Mode::Terminal
}

#[cfg(test)]
mod tests {
    use askd_client::Places;

    use super::*;

    #[test]
    fn the_mode_is_that_of_the_first_word() {
        for (args, expected) in [
            (&[][..], Mode::Terminal),
            (&["--model", "serve", "-c"], Mode::Terminal),
            (&["some/project"], Mode::Terminal),
            (&["--print-logs", "serve", "--port", "1"], Mode::Server),
            (&["web"], Mode::Server),
            (&["run", "--", "serve"], Mode::Once),
            (&["acp"], Mode::Acp),
            (&["attach", "http://localhost:4096"], Mode::Attach),
            (&["models"], Mode::Other),
            (&["serve", "--help"], Mode::Other),
        ] {
            assert_eq!(mode(args), expected, "{args:?}");
        }
    }

    #[test]
    fn what_another_command_serves_is_named() {
        let desk = Desk { places: Places::at(Path::new("/d")) };
        for (arg, hint) in [("acp", "askd acp -- opencode acp"), ("attach", "askd run -- opencode serve")] {
            let failure =
                run(&desk, Path::new("/bin/askd"), "o", &"opencode".into(), &[arg.into()]).unwrap_err();
            assert_eq!((failure.status, failure.text.contains(hint)), (2, true), "{}", failure.text);
        }
    }
}
