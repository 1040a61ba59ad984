//! `askd doctor`: what is as it should be, what is not, and what to do about each.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use askd_client::daemon::{self, connect_answer};
use askd_client::{Places, Unavailable, check_directory, check_socket};
use askd_hook::claude::settings::{EventHook, Findings, MOST_TIMEOUT_SECS, hidden_asks};
use askd_wire::{Health, VERSION};

use crate::claude;
use crate::cmd::setup::named;
use crate::cmd::{config, doctor_acp, doctor_mcp, doctor_pi};
use crate::context::Desk;
use crate::failure::{Done, status};
use crate::out::{self, Style, one_line, safe};
use crate::silence;

/// A hook that ends sooner hands asks back before most people have looked.
const SHORT_TIMEOUT_SECS: u64 = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Good,
    /// Works, and should be known.
    Note,
    Problem,
}

/// What was found, in order.
#[derive(Debug, Default)]
pub(super) struct Report {
    lines: Vec<(Level, String, Option<String>)>,
}

impl Report {
    pub(super) fn good(&mut self, text: impl Into<String>) {
        self.lines.push((Level::Good, text.into(), None));
    }

    pub(super) fn note(&mut self, text: impl Into<String>, todo: impl Into<String>) {
        self.lines.push((Level::Note, text.into(), Some(todo.into())));
    }

    pub(super) fn problem(&mut self, text: impl Into<String>, todo: impl Into<String>) {
        self.lines.push((Level::Problem, text.into(), Some(todo.into())));
    }

    fn problems(&self) -> usize {
        self.lines.iter().filter(|(level, ..)| *level == Level::Problem).count()
    }

    fn text(&self, style: Style) -> String {
        let mut out = String::new();
        for (level, text, todo) in &self.lines {
            let mark = match level {
                Level::Good => "ok      ".to_owned(),
                Level::Note => style.dim("note    "),
                Level::Problem => style.warn("problem "),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{mark}{text}");
            if let Some(todo) = todo {
                let _ = writeln!(out, "        → {todo}");
            }
        }
        out
    }
}

pub(crate) fn doctor(desk: &Desk) -> Done {
    let mut report = Report::default();
    program(&mut report);
    claude_code(desk, &mut report);
    doctor_acp::clients(&mut report);
    doctor_pi::pi(desk, &mut report);
    let health = running(desk, &mut report);
    places(&desk.places, &mut report);
    settings(desk, health.as_ref(), &mut report);
    out::print(&report.text(Style::of_stdout()))?;
    let problems = report.problems();
    if problems > 0 {
        out::print_line(&format!("{problems} {}", if problems == 1 { "problem" } else { "problems" }))?;
    }
    Ok(if problems > 0 { status::DENIED } else { status::OK })
}

fn program(report: &mut Report) {
    let exe = daemon::own_exe().map(|exe| named(&exe)).unwrap_or_default();
    report.good(format!("askd {VERSION}, {exe}"));
    let marks = ["CLAUDECODE", "ASKD_OWNER"];
    if let Some(mark) =
        marks.iter().find(|mark| std::env::var_os(mark).is_some_and(|value| !value.is_empty()))
    {
        report.note(
            format!("this shell runs inside an agent ({mark} is set)"),
            "answer and change settings from a terminal of your own; from here it is refused",
        );
    }
}

fn claude_code(desk: &Desk, report: &mut Report) {
    let program = claude::on_path("claude");
    let version = program.as_deref().and_then(claude::version);
    match (&program, &version) {
        (Some(program), Some(version)) => report.good(format!("Claude Code {version}, {}", named(program))),
        (Some(program), None) => report.problem(
            format!("{} does not say its version within 5s", named(program)),
            "run `claude --version` and see what is wrong with it",
        ),
        (None, _) => report.note(
            "no claude on PATH",
            "nothing, if you do not use Claude Code; else install it or put it on PATH, then: askd setup claude-code",
        ),
    }
    let Ok(dir) = claude::config_dir() else {
        report.problem("no home directory", "set HOME, or CLAUDE_CONFIG_DIR");
        return;
    };
    let project = std::env::current_dir().ok();
    let files = claude::settings_files(&dir, project.as_deref());
    let found = claude::look(&files);
    for (file, findings) in &found {
        match findings {
            Err(why) => report.problem(
                format!("{}: {}", named(file), one_line(why)),
                "put it right; Claude Code does not read it as it is",
            ),
            Ok(findings) if findings.hooks_disabled => report.problem(
                format!("{}: disableAllHooks is on, so no hook runs", named(file)),
                "take disableAllHooks out of it",
            ),
            Ok(_) => {}
        }
    }
    let own = files.last().map_or(dir.as_path(), |file| file.as_path());
    let installed = found.iter().find_map(|(file, findings)| {
        let findings = findings.as_ref().ok()?;
        (!findings.hooks.is_empty()).then_some((file.as_path(), findings))
    });
    match installed {
        Some((file, findings)) => hooks(desk, file, findings, report),
        None if program.is_none() => {}
        None => report.note(
            format!("{} has no hooks of askd", named(own)),
            "askd setup claude-code; nothing, if you start it by `askd run -- claude` or a host of its own",
        ),
    }
    // `askd run` chooses a mode by itself.
    if installed.is_some() {
        mode(&found, version.as_deref(), report);
    }
    doctor_mcp::permission_tool(version.as_deref(), report);
}

fn hooks(desk: &Desk, file: &Path, findings: &Findings, report: &mut Report) {
    let again = "run `askd setup claude-code` again";
    let before = report.problems();
    if !findings.missing.is_empty() {
        report.problem(format!("{}: no hook for {}", named(file), findings.missing.join(", ")), again);
    }
    let mut programs: Vec<&str> = findings.hooks.iter().map(|hook| hook.command.as_str()).collect();
    programs.sort_unstable();
    programs.dedup();
    for program in programs {
        if !Path::new(program).is_file() {
            report.problem(
                format!("{}: the hooks start {}, which is not there", named(file), safe(program)),
                again,
            );
        }
    }
    let ours: Vec<String> =
        desk.places.to_args().iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if findings.hooks.iter().any(|hook| !hook.args.windows(ours.len()).any(|args| args == ours)) {
        report.problem(
            format!(
                "{}: the hooks use another place than this shell ({})",
                named(file),
                safe(&ours.join(" "))
            ),
            format!("{again}, or set ASKD_DIR as it was when it ran first"),
        );
    }
    let asking = |hook: &&EventHook| matches!(hook.event.as_str(), "PermissionRequest" | "PreToolUse");
    for hook in findings.hooks.iter().filter(asking) {
        ask_hook(file, hook, again, report);
    }
    if report.problems() == before {
        report.good(format!("hooks for {} events in {}", findings.hooks.len(), named(file)));
    }
}

fn ask_hook(file: &Path, hook: &EventHook, again: &str, report: &mut Report) {
    let (file, event) = (named(file), safe(&hook.event));
    match hook.timeout_secs {
        _ if hook.event == "PreToolUse" && hook.is_outdated() => report.problem(
            format!("{file}: {event} is of an older askd: a call that repeats itself is not asked about"),
            again,
        ),
        Some(secs) if secs > MOST_TIMEOUT_SECS => report.problem(
            format!("{file}: the time-out of {event} is {secs}s; some versions end such a hook at once"),
            again,
        ),
        Some(secs) if secs >= SHORT_TIMEOUT_SECS * 2 => {}
        secs => report.problem(
            format!(
                "{file}: {event} is handed back to Claude's own prompt after {}s",
                secs.unwrap_or(SHORT_TIMEOUT_SECS)
            ),
            again,
        ),
    }
    if let Some(matcher) = hook.matcher.as_deref().filter(|matcher| !matches!(*matcher, "*" | "")) {
        report.note(
            format!("{file}: {event} is matched by {} only", safe(matcher)),
            "what other tools ask stays in Claude's own prompt; setup would match *",
        );
    }
}

/// What keeps asks from askd.
fn mode(found: &[(PathBuf, Result<Findings, String>)], version: Option<&str>, report: &mut Report) {
    let configured = claude::mode(found);
    let name = configured.map(|(_, mode)| mode);
    let place = match configured {
        Some((file, mode)) => format!("permission mode {} ({})", safe(mode), named(file)),
        None => "permission mode: none is configured".to_owned(),
    };
    match hidden_asks(name, version) {
        None => report.good(place),
        // Chosen by the person, and only a part is not asked for.
        Some(why) if matches!(name, Some("acceptEdits" | "plan")) => report.note(place, why),
        Some(why) => report.problem(place, why),
    }
}

/// A daemon that has just begun knows of its settings a moment later.
const READ: Duration = Duration::from_secs(3);

fn running(desk: &Desk, report: &mut Report) -> Option<Health> {
    let stopped = desk.places.stopped_file().exists();
    let mut connection = match connect_answer(&desk.places) {
        Ok(connection) => connection,
        Err(Unavailable::NotRunning(_)) if stopped => {
            report.problem(
                "askd was stopped, so agents ask by themselves",
                "start it again: askd, or askd daemon",
            );
            return None;
        }
        Err(Unavailable::NotRunning(_)) => {
            report.note("no daemon runs", "nothing: it starts with the first ask; `askd` starts it now");
            return None;
        }
        Err(error) => {
            report.problem(one_line(&error.to_string()), "put it right, then: askd doctor");
            return None;
        }
    };
    let told =
        silence::when_read(READ, || silence::health(&mut connection), |told| told.as_ref()?.as_ref().ok());
    let health = match told {
        Some(Ok(health)) => health,
        None => {
            let (what, todo) = silence::about(&desk.places);
            report.problem(what, todo);
            return None;
        }
        Some(Err(error)) => {
            let log = named(&desk.places.daemon_log());
            report.problem(
                format!("the daemon does not say how it is: {}", one_line(&error.to_string())),
                format!("see {log}; askd daemon restart"),
            );
            return None;
        }
    };
    report.good(format!(
        "daemon {} runs (process {}): {} waiting, {} attached",
        safe(&health.version),
        health.pid,
        health.open,
        if health.surfaces == 1 { "1 surface".to_owned() } else { format!("{} surfaces", health.surfaces) }
    ));
    if health.version != VERSION {
        report.problem(
            format!("the daemon is askd {}, this program is {VERSION}", safe(&health.version)),
            "askd daemon restart",
        );
    }
    match &health.not_recorded {
        None => report.good(format!("journal {}", safe(&health.journal))),
        Some(why) => report.problem(
            format!("nothing can be recorded: {}", one_line(why)),
            "make room or put it right; askd tries each second. Meanwhile agents ask by themselves",
        ),
    }
    for notice in &health.notices {
        report.note(one_line(notice), "it goes when its cause does");
    }
    for remote in &health.remotes {
        let name = safe(&remote.name);
        match (&remote.trouble, remote.attached) {
            (Some(trouble), _) => report.problem(
                format!("{name} does not work: {}", one_line(trouble)),
                "put it right; asks stay open everywhere else meanwhile",
            ),
            (None, true) => report.good(format!("{name} works")),
            (None, false) => report.note(format!("{name} begins"), "look again in a moment"),
        }
    }
    for waiting in &health.waiting_loosenings {
        report.note(
            format!("{} = {} waits for a person", safe(&waiting.key), safe(&waiting.value)),
            "askd config accept lets it into force; or take it out of the config",
        );
    }
    Some(health)
}

fn places(places: &Places, report: &mut Report) {
    let todo = "askd uses only private places of your own: correct the owner or the mode, or remove it";
    let before = report.problems();
    let run = places.run_dir();
    for dir in [places.state_dir(), run.as_path()] {
        if let Err(why) = check_directory(dir) {
            report.problem(one_line(&why.to_string()), todo);
        }
    }
    let mut sockets = 0;
    for socket in [places.ask_sock(), places.answer_sock()] {
        match check_socket(&socket) {
            Ok(there) => sockets += usize::from(there),
            Err(why) => report.problem(one_line(&why.to_string()), todo),
        }
    }
    if report.problems() == before {
        let what = if sockets == 2 { "sockets, 0600 in 0700, in" } else { "sockets will be in" };
        report.good(format!("{what} {}", named(&run)));
    }
}

fn settings(desk: &Desk, health: Option<&Health>, report: &mut Report) {
    let file = desk.places.config_file();
    match config::load(desk) {
        Err(errors) => {
            for error in errors {
                report.problem(error, "askd config check, and put it right; no daemon starts with it");
            }
        }
        Ok(config) => {
            let what =
                if file.exists() { named(&file) } else { format!("{} (none: all defaults)", named(&file)) };
            report.good(format!("config {what}"));
            for warning in askd_config::warnings(config.settings()) {
                report.note(warning, "set it to \"deny\" unless that is meant");
            }
            forwarding(&config.settings().spool.dirs, health, report);
            if !config.settings().daemon.autostart && health.is_none() {
                report.note("daemon.autostart is off and no daemon runs", "start it: askd, or askd daemon");
            }
        }
    }
}

/// Requests in a directory are no connection, so nothing starts a daemon for them.
fn forwarding(dirs: &[PathBuf], health: Option<&Health>, report: &mut Report) {
    if !dirs.is_empty() && health.is_none() {
        let what = match dirs {
            [one] => format!("{} is", named(one)),
            many => format!("{} forwarding directories are", many.len()),
        };
        report.problem(
            format!("{what} served while a daemon runs, and none does: requests there wait for nobody"),
            "start it: askd, or askd daemon; at every log-in: docs/guide/daemon.md; a forwarding directory starts none",
        );
    }
    for dir in dirs.iter().filter(|dir| !dir.is_dir()) {
        report.note(
            format!("forwarding directory {} is not there yet; it is served when it is", named(dir)),
            "nothing, if its requesters make it; else correct [spool] dirs",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finding_says_what_to_do_and_only_problems_count() {
        let mut report = Report::default();
        report.good("fine");
        report.note("so it is", "nothing");
        assert_eq!(report.problems(), 0);
        report.problem("broken", "mend it");
        assert_eq!(report.problems(), 1);
        assert_eq!(
            report.text(Style::PLAIN),
            "ok      fine\nnote    so it is\n        → nothing\nproblem broken\n        → mend it\n"
        );
    }

    #[test]
    fn modes_that_hide_asks_are_problems_and_chosen_ones_are_notes() {
        let found = |mode: &str| {
            let findings = Findings { default_mode: Some(mode.to_owned()), ..Findings::default() };
            vec![(PathBuf::from("/s.json"), Ok(findings))]
        };
        let level = |found: &[_], version| {
            let mut report = Report::default();
            mode(found, version, &mut report);
            report.lines[0].0
        };
        assert_eq!(level(&found("default"), None), Level::Good);
        assert_eq!(level(&found("auto"), None), Level::Problem);
        assert_eq!(level(&found("acceptEdits"), None), Level::Note);
        assert_eq!(level(&[], Some("2.1.332")), Level::Problem);
        assert_eq!(level(&[], Some("2.1.197")), Level::Good);
    }

    #[test]
    fn a_time_out_that_claude_cannot_hold_is_a_problem() {
        let problems = |secs: Option<u64>| {
            let mut report = Report::default();
            let hook = EventHook {
                event: "PermissionRequest".to_owned(),
                command: String::new(),
                args: Vec::new(),
                timeout_secs: secs,
                matcher: Some("*".to_owned()),
            };
            ask_hook(Path::new("/s.json"), &hook, "again", &mut report);
            report.problems()
        };
        assert_eq!(problems(Some(604_800)), 0);
        assert_eq!(problems(Some(3_000_000)), 1);
        assert_eq!(problems(Some(60)), 1);
        assert_eq!(problems(None), 1);
    }
}
