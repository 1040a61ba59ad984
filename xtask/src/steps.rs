//! Steps of a chore: each is announced, timed, and listed at the end.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// What became of one step.
enum End {
    Passed(Duration),
    Failed(Duration, String),
    Skipped(String),
}

/// The steps of one chore. A failed step does not stop the others: one run tells everything that is wrong.
#[derive(Default)]
pub(crate) struct Steps {
    rows: Vec<(String, End)>,
}

impl Steps {
    /// Runs one step and says whether it passed.
    pub(crate) fn run(&mut self, name: &str, step: impl FnOnce() -> Result<()>) -> bool {
        println!("\n==> {name}");
        let start = Instant::now();
        let outcome = step();
        let took = start.elapsed();
        let end = match outcome {
            Ok(()) => End::Passed(took),
            Err(error) => {
                println!("{name}: {error:#}");
                End::Failed(took, format!("{error:#}"))
            }
        };
        let passed = matches!(end, End::Passed(_));
        println!("<== {name}: {} in {}", if passed { "passed" } else { "FAILED" }, seconds(took));
        self.rows.push((name.to_owned(), end));
        passed
    }

    /// Lists a step that was not run, with the reason.
    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        println!("\n==> {name}: skipped, {why}");
        self.rows.push((name.to_owned(), End::Skipped(why.to_owned())));
    }

    /// Prints the table and fails when any step failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\nsteps:");
        let mut failed = 0;
        for (name, end) in &self.rows {
            match end {
                End::Passed(took) => println!("  passed   {:>9}  {name}", seconds(*took)),
                End::Failed(took, error) => {
                    failed += 1;
                    println!("  FAILED   {:>9}  {name}: {error}", seconds(*took));
                }
                End::Skipped(why) => println!("  skipped  {:>9}  {name}: {why}", ""),
            }
        }
        if failed > 0 {
            bail!("{failed} of {} steps failed", self.rows.len());
        }
        Ok(())
    }
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

/// The workspace that this program was built from.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = manifest.parent().context("xtask has no parent directory")?;
    Ok(root.to_owned())
}

/// Where cargo builds to.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |dir| root.join(dir))
}

/// The cargo that started us, else the one on the path, in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs a command with its output shown; an exit status other than 0 is an error that names the command.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    let line = shown(command);
    println!("$ {line}");
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("`{line}` could not be started"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Whether the command can be started and ends well; its output is dropped.
pub(crate) fn works(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(command.get_program()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_step_fails_the_chore_and_the_others_still_run() {
        let mut steps = Steps::default();
        assert!(!steps.run("first", || bail!("broken")));
        assert!(steps.run("second", || Ok(())));
        let error = steps.finish().unwrap_err().to_string();
        assert_eq!(error, "1 of 2 steps failed");
    }

    #[test]
    fn skipped_steps_do_not_fail_the_chore() {
        let mut steps = Steps::default();
        steps.skip("agents", "--fast");
        assert!(steps.run("first", || Ok(())));
        steps.finish().unwrap();
    }

    #[test]
    fn a_command_that_fails_is_named() {
        let error = must(Command::new("false").arg("here")).unwrap_err().to_string();
        assert!(error.starts_with("`false here` ended with"), "{error}");
    }
}
