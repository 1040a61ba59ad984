//! `askd setup zed` and `askd setup acpx`: put `askd acp --` before every agent that has a command in the client's
//! configuration, and take it out again. `askd setup acp` prints what any other client needs.

use std::path::PathBuf;

use askd_client::daemon;
use askd_hook::claude::settings::Manifest;

use crate::cli::SetupArgs;
use crate::clients::{Client, Entry};
use crate::context::Desk;
use crate::diff::diff;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};
use crate::replace::Target;

use super::setup::{Kept, about, named};

pub(super) fn setup(desk: &Desk, args: &SetupArgs, client: Client) -> Done {
    let file = file(client)?;
    let target = Target::read(&file).map_err(|error| about(&file, &error))?;
    let kept = Kept::of(desk, &target, client.word());
    let text = target.text.as_deref().unwrap_or_default();
    let wrong = |error| Failure::wrong_use(format!("{}: {error}; nothing was changed", named(&file)));
    let word = client.word();
    if args.undo {
        let before = original(&kept, client, text)?.map_or_else(|| client.unwrap(text), Ok).map_err(wrong)?;
        return change(args, &file, &target, &before, &|| Ok(()), &|| {
            kept.forget(false)?;
            out::print_line(&format!("took askd out of {}", named(&file)))
        });
    }
    let askd = askd(desk)?;
    let installed = client.wrap(text, &askd).map_err(wrong)?;
    let entries = client.entries(&installed).map_err(wrong)?;
    if !entries.iter().any(|entry| entry.behind) {
        let agent = if args.command.is_empty() {
            vec!["opencode".to_owned(), "acp".to_owned()]
        } else {
            args.command.clone()
        };
        out::print_line(&format!(
            "{} has no agent with a command of its own. Put one in, then run this again, or put it in as it would be:\n{}",
            named(&file),
            client.example(&askd, &agent)
        ))?;
        registry(&entries)?;
        // Nothing was set up, and a script must not take it for done.
        return Ok(status::WRONG_USE);
    }
    let done = change(
        args,
        &file,
        &target,
        &installed,
        &|| {
            // Without an earlier setup what is there is the person's own.
            let original = original(&kept, client, text)?.unwrap_or_else(|| text.to_owned());
            kept.write(&Manifest { original: Some(original), installed: installed.clone() })
        },
        &|| {
            let names: Vec<String> = entries
                .iter()
                .filter(|entry| entry.behind && !entry.by_another)
                .map(|entry| safe(&entry.name))
                .collect();
            out::print_line(&format!("put askd before {} in {}", names.join(", "), named(&file)))?;
            out::print_line(&format!("undo: askd setup {word} --undo"))
        },
    )?;
    for entry in entries.iter().filter(|entry| entry.by_another) {
        out::print_line(&format!(
            "note: askd is in the line of {} already; it stays as it is",
            safe(&entry.name)
        ))?;
    }
    registry(&entries)?;
    Ok(done)
}

/// The text from before setup, with what the person has changed since; `None`: nothing is known of an earlier setup.
fn original(kept: &Kept, client: Client, text: &str) -> Result<Option<String>, Failure> {
    let Some(manifest) = kept.read()? else { return Ok(None) };
    let Some(before) = manifest.original else { return Ok(None) };
    if manifest.installed == text {
        return Ok(Some(before));
    }
    // A text of which nothing can be read now is told by whoever writes it.
    Ok(client.restored(text, &before).ok())
}

/// `before`: done before the file is written; `told`: says what was done.
pub(super) fn change(
    args: &SetupArgs,
    file: &std::path::Path,
    target: &Target,
    new: &str,
    before: &dyn Fn() -> Result<(), Failure>,
    told: &dyn Fn() -> Result<(), Failure>,
) -> Done {
    let old = target.text.as_deref().unwrap_or_default();
    if old == new {
        out::print_line(&format!("{}: nothing to change", named(file)))?;
    } else if args.dry_run {
        out::print(&format!("{} would be changed:\n{}", named(file), diff(old, new)))?;
    } else {
        before()?;
        target.write(Some(new)).map_err(|error| about(file, &error))?;
        told()?;
    }
    Ok(status::OK)
}

/// Agents that the client starts by itself cannot be stood before.
fn registry(entries: &[Entry]) -> Result<(), Failure> {
    for entry in entries.iter().filter(|entry| entry.agent.is_none()) {
        out::print_line(&format!(
            "note: {} has no command here that askd could stand before; give it one to be asked through askd",
            safe(&entry.name)
        ))?;
    }
    Ok(())
}

/// `askd setup acp [-- AGENT…]`.
pub(super) fn print(desk: &Desk, command: &[String]) -> Done {
    let askd = askd(desk)?;
    let agent = if command.is_empty() { vec!["AGENT".to_owned()] } else { command.to_vec() };
    let words: Vec<String> = askd.iter().chain(&agent).cloned().collect();
    let (program, rest) = words.split_first().map_or((String::new(), &[][..]), |(p, rest)| (p.clone(), rest));
    let json = |value: serde_json::Value| value.to_string();
    let mut text = format!(
        "In any ACP client, put this in place of the agent's own command:\n\n  command  {}\n  args     {}\n",
        json(program.into()),
        json(rest.iter().map(String::as_str).collect::<Vec<_>>().into())
    );
    for client in Client::ALL {
        text.push_str(&format!(
            "\n{} ({}; `askd setup {}` does it for the agents that are in it):\n{}\n",
            client.name(),
            named(&file(client)?),
            client.word(),
            client.example(&askd, &agent)
        ));
    }
    text.push_str("\nTo undo, put the agent's own command back.\n");
    out::print(&text)?;
    Ok(status::OK)
}

/// Where a client's configuration is.
pub(super) fn file(client: Client) -> Result<PathBuf, Failure> {
    let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
    let home = home.ok_or_else(|| Failure::wrong_use("no home directory: set HOME"))?;
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    Ok(client.file(&home, config.as_deref()))
}

/// What stands before the agent's command line.
fn askd(desk: &Desk) -> Result<Vec<String>, Failure> {
    let exe =
        daemon::own_exe().ok_or_else(|| Failure::unavailable("askd's own program file is not known"))?;
    let mut words = vec![exe.into_os_string(), "acp".into()];
    words.extend(desk.places.to_args());
    words.push("--".into());
    let text = |word: std::ffi::OsString| {
        word.into_string()
            .map_err(|word| Failure::wrong_use(format!("{} is not text", safe(&word.to_string_lossy()))))
    };
    words.into_iter().map(text).collect()
}
