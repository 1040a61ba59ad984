//! `askd setup pi`: puts pi's forwarding directory into `[spool] dirs` of askd's own settings, so that the daemon answers
//! what pi's subagents forward there, and takes it out again. Nothing of pi's is changed.

use std::path::{Path, PathBuf};

use askd_agents::pi::{self, found};
use askd_client::daemon::Door;
use askd_hook::claude::settings::Manifest;
use toml_edit::{Array, DocumentMut, Item, table, value};

use super::config;
use super::setup::{Kept, about, named};
use super::setup_client::change;
use crate::cli::SetupArgs;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};
use crate::replace::Target;

pub(super) fn setup(desk: &Desk, args: &SetupArgs) -> Done {
    let agent_dir = agent_dir()?;
    let dir = found::forwarding_dir(&agent_dir);
    let text_of_dir =
        dir.to_str().ok_or_else(|| Failure::wrong_use(format!("{} is not text", named(&dir))))?;
    let file = desk.places.config_file();
    let target = Target::read(&file).map_err(|error| about(&file, &error))?;
    let kept = Kept::of(desk, &target, "pi");
    let text = target.text.as_deref().unwrap_or_default();
    let wrong = |error: String| Failure::wrong_use(format!("{}: {error}; nothing was changed", named(&file)));
    if args.undo {
        let before = match kept.read()?.filter(|manifest| manifest.installed == text) {
            // Setup made the file, and nobody wrote anything else into it.
            Some(Manifest { original: None, .. }) => return remove(args, &file, &target, &kept),
            Some(Manifest { original: Some(original), .. }) => original,
            None => without(text, text_of_dir).map_err(wrong)?,
        };
        return change(args, &file, &target, &before, &|| Ok(()), &|| {
            kept.forget(false)?;
            out::print_line(&format!("took {} out of {}", named(&dir), named(&file)))?;
            out::print_line(
                "asks that are open stay open; pi itself answers what its subagents forward from now on",
            )
        });
    }
    if !agent_dir.is_dir() {
        return Err(Failure::wrong_use(format!(
            "there is no pi here: {} does not exist; set PI_CODING_AGENT_DIR, or start pi once",
            named(&agent_dir)
        )));
    }
    let installed = with(text, text_of_dir).map_err(wrong)?;
    let done = change(
        args,
        &file,
        &target,
        &installed,
        &|| kept.write(&Manifest { original: target.text.clone(), installed: installed.clone() }),
        &|| {
            out::print_line(&format!("put {} into {}", named(&dir), named(&file)))?;
            out::print_line("undo: askd setup pi --undo")
        },
    )?;
    if !args.dry_run {
        out::print_line(&serving(desk, &named(&dir)))?;
    }
    advise(&agent_dir)?;
    Ok(done)
}

/// Takes away the file that setup made, and its directory when nothing else is in it.
fn remove(args: &SetupArgs, file: &Path, target: &Target, kept: &Kept) -> Done {
    let why = "only pi's directory is in it, and setup made it";
    if args.dry_run {
        out::print_line(&format!("{} would be removed: {why}", named(file)))?;
        return Ok(status::OK);
    }
    target.write(None).map_err(|error| about(file, &error))?;
    // One that holds anything stays.
    let _ = file.parent().map(std::fs::remove_dir);
    kept.forget(false)?;
    out::print_line(&format!("removed {}: {why}", named(file)))?;
    Ok(status::OK)
}

/// Starts the daemon when none runs, and says whether anybody serves the directory. Requests in it are no connection, so
/// they start none.
fn serving(desk: &Desk, dir: &str) -> String {
    match desk.start(Door::Answer) {
        Ok(_) => format!(
            "the daemon runs and serves {dir}; nothing there starts it again: run `askd daemon` at log-in (docs/guide/daemon.md)"
        ),
        Err(error) => format!(
            "nobody serves {dir} yet, the daemon will while it runs: {}",
            out::one_line(&error.to_string())
        ),
    }
}

/// pi's own directory.
pub(super) fn agent_dir() -> Result<PathBuf, Failure> {
    let dir = pi::agent_dir().ok_or_else(|| Failure::wrong_use("no home directory: set HOME"))?;
    std::path::absolute(&dir).map_err(|error| about(&dir, &error))
}

/// What children need in their environment, and what keeps asks from askd.
fn advise(agent_dir: &Path) -> Result<(), Failure> {
    let project = std::env::current_dir().ok();
    let findings = found::look(agent_dir, project.as_deref());
    for (problem, todo) in gaps(&findings) {
        out::print_line(&format!("warning: {problem}\n  {todo}"))?;
    }
    out::print_line(
        "children ask when these are set where they start (`askd run -- pi …` sets them by itself):",
    )?;
    if findings.needs_hint() {
        out::print_line(
            "  export PI_IS_SUBAGENT=1            a pi without a screen asks its parent; older extensions need it",
        )?;
    }
    out::print_line(
        "  PI_SUBAGENT_PARENT_SESSION=NAME    for a pi without any parent, e.g. pi -p in a job; any name",
    )
}

/// What keeps asks from askd, each with what to do about it.
pub(super) fn gaps(findings: &found::Findings) -> Vec<(String, String)> {
    let mut gaps = Vec::new();
    let install = format!("pi install npm:{}", found::EXTENSION);
    if findings.extension.is_none() {
        gaps.push(("pi has no permission extension: it runs everything unasked".to_owned(), install));
    } else if findings.subagents && !findings.reaches_subagents {
        let text = "subagents of pi-subagents load no permission extension: they run everything unasked";
        gaps.push((text.to_owned(), install));
    }
    if findings.yolo {
        let text = "yoloMode is on in the permission extension: every ask is a yes, and askd hears of none";
        gaps.push((text.to_owned(), "take yoloMode out of its config.json".to_owned()));
    }
    if let Some(broken) = &findings.broken {
        gaps.push((
            out::one_line(&safe(broken)),
            "put it right; the extension does not read it as it is".to_owned(),
        ));
    }
    gaps
}

/// The settings with this directory in `[spool] dirs`.
fn with(text: &str, dir: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let spool = document.entry("spool").or_insert_with(table);
    let spool = spool.as_table_like_mut().ok_or("spool is no table")?;
    let dirs = spool.entry("dirs").or_insert_with(|| value(Array::new()));
    let dirs = dirs.as_array_mut().ok_or("spool.dirs is no list")?;
    if !dirs.iter().any(|known| known.as_str() == Some(dir)) {
        dirs.push(dir);
    }
    Ok(document.to_string())
}

/// The settings without it.
fn without(text: &str, dir: &str) -> Result<String, String> {
    let mut document = parse(text)?;
    let Some(spool) = document.get_mut("spool").and_then(Item::as_table_like_mut) else {
        return Ok(text.to_owned());
    };
    let Some(dirs) = spool.get_mut("dirs").and_then(Item::as_array_mut) else { return Ok(text.to_owned()) };
    dirs.retain(|known| known.as_str() != Some(dir));
    if dirs.is_empty() {
        spool.remove("dirs");
    }
    if spool.is_empty() {
        document.remove("spool");
    }
    Ok(document.to_string())
}

/// Whether the settings have it in `[spool] dirs`.
pub(super) fn is_served(desk: &Desk, dir: &Path) -> bool {
    config::load(desk).is_ok_and(|config| config.settings().spool.dirs.iter().any(|known| known == dir))
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|error: toml_edit::TomlError| out::one_line(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_persons_settings_stay_as_they_are_around_the_directory() {
        for text in [
            "",
            "# mine\n[permissions]\nqueue_cap = 3 # five is too many\n",
            "[spool]\ndirs = [\"/mine\"] # and no other\n",
            "spool = { dirs = [\"/mine\"] }\n",
        ] {
            let put = with(text, "/p/x").unwrap();
            assert!(put.contains("/p/x"), "{put}");
            assert_eq!(with(&put, "/p/x").unwrap(), put, "once");
            assert_eq!(without(&put, "/p/x").unwrap().trim(), text.trim());
        }
        assert_eq!(without("[hook]\n", "/p/x").unwrap(), "[hook]\n");
        assert!(with("[spool]\ndirs = 1\n", "/p/x").is_err() && with("spool", "/p/x").is_err());
    }

    #[test]
    fn a_child_that_is_not_gated_is_named_with_what_to_do() {
        let findings = |reaches_subagents| found::Findings {
            extension: Some(PathBuf::from("/x")),
            subagents: true,
            reaches_subagents,
            ..found::Findings::default()
        };
        assert!(gaps(&findings(true)).is_empty());
        let (problem, todo) = &gaps(&findings(false))[0];
        assert!(problem.contains("unasked") && todo.starts_with("pi install npm:"));
        assert_eq!(gaps(&found::Findings::default()).len(), 1);
    }
}
