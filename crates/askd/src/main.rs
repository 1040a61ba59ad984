//! askd, the one program: hook, daemon, command line and line mode. It decides nothing itself; people do, through it.
//!
//! Read [`cli`] (what can be typed) and [`line`] (the surface) first. The hook path is taken before anything else: an
//! agent waits for it.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod claude;
mod cli;
mod clients;
mod cmd;
mod confirm;
mod context;
mod diff;
mod failure;
mod hidden;
mod identity;
mod line;
mod out;
mod process;
mod queue;
mod replace;
mod silence;
mod target;
mod view;
mod waiting;

use std::ffi::OsString;
use std::process::ExitCode;

use askd_wire::Decision;
use clap::Parser;

use crate::cli::{BulkArgs, Cli, Command};
use crate::cmd::answer::Said;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};

/// The daemon makes and drops many small things, on two threads: a quarter less processor time with it than with the C
/// library's, per ask.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    if args.next().is_some_and(|first| first == "hook") {
        let rest: Vec<OsString> = args.collect();
        if !rest.iter().any(|arg| arg == "--help" || arg == "-h") {
            return askd_hook::main(rest);
        }
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; a closed pipe is none either.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { status::WRONG_USE } else { status::OK });
        }
    };
    match run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            if !failure.text.is_empty() {
                out::tell(&format!("askd: {}", failure.text));
            }
            ExitCode::from(failure.status)
        }
    }
}

fn answer(desk: &Desk, bulk: &BulkArgs, ids: &[String], said: &Said) -> Done {
    if bulk.yes && !bulk.all_background {
        return Err(Failure::wrong_use(
            "--yes goes with --all-background; an ask that is named is not asked about",
        ));
    }
    if ids.is_empty() && !bulk.all_background {
        return Err(Failure::wrong_use(
            "no ask is named: `askd ls` prints the handles; --all-background takes every background ask",
        ));
    }
    if bulk.all_background {
        cmd::bulk::all_background(desk, said, bulk.yes)
    } else {
        cmd::answer::answer(desk, ids, said)
    }
}

fn run(cli: Cli) -> Done {
    let Some(command) = cli.command else {
        let (desk, scene) = (Desk::new()?, line::Scene::person());
        let full_screen = !cli.plain && queue::is_possible();
        return if full_screen { queue::run(&desk, scene) } else { line::run(&desk, scene) };
    };
    if let Command::Hook { .. } = command {
        // Only with --help, which has been printed.
        return Ok(status::OK);
    }
    let desk = Desk::new()?;
    match command {
        Command::Daemon(args) => cmd::daemon::command(&desk, args),
        Command::Ask(args) => cmd::ask::ask(&desk, args),
        Command::Ls { all, json } => cmd::list::ls(&desk, all, json),
        Command::Show { id, json } => cmd::list::show(&desk, &id, json),
        Command::Sessions { json } => cmd::list::sessions(&desk, json),
        Command::Allow(args) => {
            let said = Said { decision: Decision::Allow, option: args.option, message: None, stop: false };
            answer(&desk, &args.bulk, &args.ids, &said)
        }
        Command::Deny(args) => {
            let said = Said {
                decision: Decision::Deny,
                option: args.option,
                message: args.message,
                stop: args.stop,
            };
            answer(&desk, &args.bulk, &args.ids, &said)
        }
        Command::Withdraw { ids } => cmd::answer::withdraw(&desk, &ids),
        Command::Permissions(args) => cmd::permissions::permissions(&desk, &args),
        Command::Log { session, since, json } => {
            cmd::log::log(&desk, since.as_deref(), session.as_deref(), json)
        }
        Command::Status { json } => cmd::status::line(&desk, json),
        Command::Setup(args) => cmd::setup::setup(&desk, &args),
        Command::Run { command } => cmd::run::run(&desk, command),
        Command::Acp(args) => cmd::acp::acp(&desk, args),
        Command::Claude(args) => cmd::claude::claude(&desk, args),
        Command::Mcp(args) => cmd::mcp::mcp(&desk, &args),
        Command::Spool(args) => cmd::spool::spool(&desk, args),
        Command::Demo(args) => cmd::demo::demo(&desk, cli.plain, args),
        Command::Doctor => cmd::doctor::doctor(&desk),
        Command::Config { action } => cmd::config::command(&desk, action),
        Command::RunWatch { pid, root, detached } => cmd::run_watch::watch(&desk, pid, root, detached),
        Command::Hook { .. } => Ok(status::OK),
    }
}
