//! A host built with the real agent SDK: askd in place of the executable.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use askd_tests::{Model, Program, Step, Version, World, package, until};

use crate::script;

#[test]
fn c3_c7_a_host_of_the_agent_sdk_answers_and_others_answer_for_it() -> Result<()> {
    let world = World::with_askd()?;
    let steps = ["touch host", "touch other"].map(Step::bash).into_iter().chain([Step::say("done")]);
    let model = Model::start(script(steps))?;
    let wrapper = world.file("claude-under-askd");
    let binary = Version::Newest.binary()?;
    let text =
        format!("#!/bin/sh\nexec '{}' claude -- '{}' \"$@\"\n", world.askd().display(), binary.display());
    fs::write(&wrapper, text)?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    let sdk = package("@anthropic-ai/claude-agent-sdk")?.join("sdk.mjs");
    let host = world.file("host.mjs");
    fs::write(&host, format!("import {{ query }} from '{}';\n{HOST}", sdk.display()))?;
    let node = Program::ClaudeAcp.command()?.swap_remove(0);
    let mut child = Ended(
        Command::new(node)
            .arg(&host)
            .env_clear()
            .envs(world.agent_env(&model))
            .env("WRAPPER", &wrapper)
            .current_dir(world.project())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?,
    );
    world.wait_made("host")?;
    let ask = world.ask("touch other")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("other")?;
    let status = until("the end of the host", || Ok(child.0.try_wait()?))?;
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.0.stdout.take().context("a pipe")?, &mut said)?;
    assert!(status.success(), "{said}");
    // The SDK told its dialog that somebody else was first.
    assert!(said.contains("asked touch host") && said.contains("aborted touch other"), "{said}");
    assert!(said.contains("result done"), "{said}");
    let asks = world.asks()?;
    assert!(asks.iter().all(|ask| ask.settled() == Some(("allowed", "person"))), "{asks:?}");
    Ok(())
}

/// `canUseTool` answers `touch host` by itself and leaves the rest to others.
const HOST: &str = r#"
const canUseTool = (tool, input, { signal }) => {
  console.log("asked", input.command);
  if (input.command.includes("host")) return Promise.resolve({ behavior: "allow", updatedInput: input });
  return new Promise((_, reject) => signal.addEventListener("abort", () => {
    console.log("aborted", input.command);
    reject(new Error("aborted"));
  }));
};
async function* prompt() {
  yield { type: "user", message: { role: "user", content: "play=main" }, parent_tool_use_id: null, session_id: "" };
}
const options = { canUseTool, pathToClaudeCodeExecutable: process.env.WRAPPER, permissionMode: "default", settingSources: ["user"] };
for await (const message of query({ prompt: prompt(), options })) {
  if (message.type === "result") { console.log("result", message.result); break; }
}
"#;

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
