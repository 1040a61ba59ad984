//! `askd run -- claude …`: starts an agent under askd, for this run only (opencode: see `run_opencode`, pi: `run_pi`).
//!
//! The hooks go in by `--settings`, so nothing on disk changes. `ASKD_OWNER` names this very process, which becomes the
//! agent: hooks in the person's settings stay silent for it, and speak again for an agent that it starts itself. As the
//! agent takes this process over, signals, the terminal and the exit status are its own.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use askd_client::daemon::{self, Door};
use askd_client::random_hex;
use askd_hook::claude::settings::{
    Hooking, PERMISSION_TIMEOUT_SECS, asks_headless, hidden_asks, run_settings,
};
use serde_json::{Map, Value};

use crate::claude;
use crate::context::Desk;
use crate::failure::{Done, Failure};
use crate::out::{self, safe};

/// What a shell says for a program that is not there, or is no program.
pub(super) const NOT_FOUND: u8 = 127;
pub(super) const NOT_RUN: u8 = 126;

pub(crate) fn run(desk: &Desk, command: Vec<OsString>) -> Done {
    let mut words = command.into_iter();
    let program = words.next().unwrap_or_default();
    let args: Vec<OsString> = words.collect();
    let agent = Path::new(&program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    if !["claude", "opencode", "pi"].contains(&agent) {
        return Err(Failure::wrong_use(format!(
            "`askd run` does not know {}; it serves claude (Claude Code), opencode and pi: askd run -- claude …",
            safe(&program.to_string_lossy())
        )));
    }
    desk.keep_surroundings();
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let random = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let owner = format!("run-{}@{}", &random[..8], std::process::id());
    if agent == "opencode" {
        return super::run_opencode::run(desk, &exe, &owner, &program, &args);
    }
    if agent == "pi" {
        return super::run_pi::run(desk, &exe, &owner, &program, &args);
    }
    let hook = daemon::hook_exe(&exe);
    // Messages on standard input: askd holds the pipe, and the hooks only watch.
    let held = super::claude::takes_messages(&args);
    let hooking = Hooking {
        exe: &hook,
        places: &desk.places,
        timeout_secs: PERMISSION_TIMEOUT_SECS,
        owner: Some(owner.as_str()).filter(|_| !held),
    };
    let args = with_settings(args, &hooking)?;
    let args = match needs_tool(&program, &args) {
        true => super::run_mcp::with_tool(args),
        false => args,
    };
    let args = super::run_mcp::with_server(args, &exe, &desk.places);
    // Without a daemon the agent asks by itself; it runs all the same.
    if let Err(why) = desk.start(Door::Ask) {
        out::tell(&format!("askd: {}; the agent asks by itself", out::one_line(&why.to_string())));
    }
    if held {
        return super::claude::serve(desk, program, args, &exe);
    }
    if is_headless(&args) {
        start_watch(&exe);
    }
    let error = Command::new(&program).args(&args).env("ASKD_OWNER", &owner).exec();
    Err(not_started(&program, &error))
}

/// A print run of a version that asks nobody there, and denies what it would ask.
fn needs_tool(program: &OsStr, args: &[OsString]) -> bool {
    super::claude::names_nobody(args)
        && super::claude::asks_by_itself(args)
        && claude::version(Path::new(program)).is_some_and(|version| asks_headless(&version) == Some(false))
}

/// What a shell would say and how it would end.
pub(super) fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let named = safe(&program.to_string_lossy());
    match error.kind() {
        io::ErrorKind::NotFound => Failure::new(NOT_FOUND, format!("{named}: there is no such program")),
        _ => Failure::new(NOT_RUN, format!("{named}: {error}")),
    }
}

/// The agent's arguments with our hooks in `--settings`, merged into those that were given.
fn with_settings(mut args: Vec<OsString>, hooking: &Hooking<'_>) -> Result<Vec<OsString>, Failure> {
    let ours = run_settings(hooking, None).map_err(|error| Failure::wrong_use(error.to_string()))?;
    let mut settings = match take_settings(&mut args)? {
        Some(given) => given,
        None => Map::new(),
    };
    if is_mode_free(&args, &settings) {
        // Newer versions would decide by themselves what they ask for; a run under askd is for being asked.
        let permissions = settings.entry("permissions").or_insert_with(|| Value::Object(Map::new()));
        if let Some(permissions) = permissions.as_object_mut() {
            permissions.insert("defaultMode".to_owned(), "default".into());
        }
    }
    merge_hooks(&mut settings, &ours)?;
    let text = Value::Object(settings).to_string();
    args.splice(0..0, ["--settings".into(), text.into()]);
    Ok(args)
}

/// Takes the last `--settings` out of the arguments, as a file or inline, the way Claude reads it.
fn take_settings(args: &mut Vec<OsString>) -> Result<Option<Map<String, Value>>, Failure> {
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let inline =
        |arg: &OsString| arg.to_str().and_then(|arg| arg.strip_prefix("--settings=")).map(str::to_owned);
    let Some(at) = args[..end].iter().rposition(|arg| arg == "--settings" || inline(arg).is_some()) else {
        return Ok(None);
    };
    let value: OsString = match inline(&args[at]) {
        Some(value) => {
            args.remove(at);
            value.into()
        }
        None if at + 1 < end => {
            args.remove(at);
            args.remove(at)
        }
        None => return Err(Failure::wrong_use("--settings needs a file or JSON behind it")),
    };
    let is_json = value.to_str().is_some_and(|text| text.trim_start().starts_with('{'));
    let (named, text) = if is_json {
        ("--settings".to_owned(), value.to_string_lossy().into_owned())
    } else {
        let named = format!("--settings {}", safe(&value.to_string_lossy()));
        let text =
            fs::read_to_string(&value).map_err(|error| Failure::wrong_use(format!("{named}: {error}")))?;
        (named, text)
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(settings)) => Ok(Some(settings)),
        Ok(_) => Err(Failure::wrong_use(format!("{named} is not a JSON object"))),
        Err(error) => {
            Err(Failure::wrong_use(format!("{named} is not JSON: {}", out::one_line(&error.to_string()))))
        }
    }
}

/// Adds our hooks behind those that are there, event by event.
fn merge_hooks(settings: &mut Map<String, Value>, ours: &str) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::wrong_use(format!("--settings: {what}"));
    let ours: Value = serde_json::from_str(ours).map_err(|error| wrong(&error.to_string()))?;
    let Some(events) = ours.get("hooks").and_then(Value::as_object) else { return Ok(()) };
    let hooks = settings.entry("hooks").or_insert_with(|| Value::Object(Map::new()));
    let Some(hooks) = hooks.as_object_mut() else { return Err(wrong("hooks is not an object")) };
    for (event, groups) in events {
        let list = hooks.entry(event).or_insert_with(|| Value::Array(Vec::new()));
        let Some(list) = list.as_array_mut() else {
            return Err(wrong(&format!("hooks.{event} is not an array")));
        };
        list.extend(groups.as_array().into_iter().flatten().cloned());
    }
    Ok(())
}

/// Nobody has chosen a permission mode: not on the command line, nor in any settings file.
fn is_mode_free(args: &[OsString], settings: &Map<String, Value>) -> bool {
    let flags =
        ["--permission-mode", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions"];
    let is_flag = |arg: &OsString| {
        arg.to_str().is_some_and(|arg| {
            flags.iter().any(|flag| {
                arg.strip_prefix(flag).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        })
    };
    if args.iter().take_while(|arg| *arg != "--").any(is_flag)
        || settings.get("permissions").is_some_and(|permissions| permissions.get("defaultMode").is_some())
    {
        return false;
    }
    let Ok(dir) = claude::config_dir() else { return true };
    let project = std::env::current_dir().ok();
    let found = claude::look(&claude::settings_files(&dir, project.as_deref()));
    let Some((file, mode)) = claude::mode(&found) else { return true };
    if let Some(why) = hidden_asks(Some(mode), None) {
        out::tell(&format!("askd: {}: {why}", safe(&file.to_string_lossy())));
    }
    false
}

/// The agent has no screen of its own, so somebody else must say that it waits.
fn is_headless(args: &[OsString]) -> bool {
    let mut flags = args.iter().take_while(|arg| *arg != "--");
    flags.any(|arg| arg == "-p" || arg == "--print")
        || !io::stdin().is_terminal()
        || !io::stdout().is_terminal()
}

/// A process beside the agent that tells on standard error what it waits for. Its parent ends at once, so that it is
/// no child of the agent, and it has nothing of the agent's environment.
pub(super) fn start_watch(exe: &Path) {
    start_watch_of(exe, None);
}

/// The same, also for the asks of this root session.
pub(super) fn start_watch_of(exe: &Path, root: Option<&str>) {
    let mut command = Command::new(exe);
    command.arg("run-watch").arg(std::process::id().to_string());
    command.args(root.map(|root| format!("--root={root}")));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    if let Ok(mut first) = command.spawn() {
        let _ = first.wait();
    }
}

#[cfg(test)]
mod tests {
    use askd_client::Places;

    use super::*;

    fn args(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    fn hooked(given: &[&str]) -> Result<(Vec<OsString>, Value), Failure> {
        let places = Places::at(Path::new("/d"));
        let hooking = Hooking {
            exe: Path::new("/bin/askd"),
            places: &places,
            timeout_secs: PERMISSION_TIMEOUT_SECS,
            owner: Some("run-1@2"),
        };
        let mut all = with_settings(args(given), &hooking)?;
        assert_eq!(all.remove(0), "--settings");
        let settings = serde_json::from_str(all.remove(0).to_str().unwrap()).unwrap();
        Ok((all, settings))
    }

    #[test]
    fn hooks_go_in_beside_the_persons_own_settings() {
        let given = r#"{"model":"m","hooks":{"Stop":[{"hooks":[{"type":"command","command":"mine"}]}]}}"#;
        let (rest, settings) = hooked(&["-p", "--settings", given, "do it"]).unwrap();
        assert_eq!(rest, args(&["-p", "do it"]));
        assert_eq!(settings["model"], "m");
        assert_eq!(settings["hooks"]["Stop"].as_array().unwrap().len(), 2);
        let ask = &settings["hooks"]["PermissionRequest"][0]["hooks"][0];
        assert_eq!(ask["command"], "/bin/askd");
        let words: Vec<&str> = ask["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(
            words,
            ["hook", "claude-code", "--dir", "/d", "--timeout", "604800", "--owner", "run-1@2"]
        );
    }

    #[test]
    fn a_settings_file_is_read_and_what_follows_a_double_dash_is_the_agents() {
        let temp = tempfile::tempdir().unwrap();
        let file = temp.path().join("s.json");
        fs::write(&file, r#"{"model":"f"}"#).unwrap();
        let flag = format!("--settings={}", file.display());
        let (rest, settings) = hooked(&[&flag, "--", "--settings"]).unwrap();
        assert_eq!((rest, &settings["model"]), (args(&["--", "--settings"]), &Value::from("f")));
    }

    #[test]
    fn wrong_settings_are_named() {
        let text = |given: &[&str]| hooked(given).unwrap_err().text;
        assert!(text(&["--settings", "{"]).contains("--settings is not JSON"));
        assert!(text(&["--settings", "/nowhere/s.json"]).contains("/nowhere/s.json"));
        assert!(text(&["--settings"]).contains("needs a file or JSON"));
        assert!(text(&["--settings", r#"{"hooks":[]}"#]).contains("hooks is not an object"));
    }

    #[test]
    fn a_chosen_mode_is_left_alone() {
        let (_, settings) = hooked(&["--permission-mode", "plan"]).unwrap();
        assert_eq!(settings.get("permissions"), None);
        let (_, settings) = hooked(&["--permission-mode=auto"]).unwrap();
        assert_eq!(settings.get("permissions"), None);
        let (_, settings) = hooked(&["--settings", r#"{"permissions":{"defaultMode":"auto"}}"#]).unwrap();
        assert_eq!(settings["permissions"]["defaultMode"], "auto");
    }

    #[test]
    fn only_served_agents_are_started() {
        let desk = Desk { places: Places::at(Path::new("/d")) };
        let failure = run(&desk, args(&["vim", "x"])).unwrap_err();
        assert_eq!(
            (failure.status, failure.text.contains("claude (Claude Code), opencode and pi")),
            (2, true)
        );
    }
}
