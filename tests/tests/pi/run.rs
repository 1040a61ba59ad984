//! `askd run -- pi` without a screen: what pi and its children ask waits for a person.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Result;
use askd_tests::{Model, Scripts, Step, World, until};

use super::{bash, bash_asks, env, files, forwarding_dir, install, pi};

#[test]
fn f1_f8_f9_a_headless_pi_under_askd_run_asks_a_person() -> Result<()> {
    let steps = [bash("touch yes"), bash("touch no"), Step::say("all is done")];
    let model = Model::start(Scripts::of("main", steps))?;
    let mut world = World::bare()?;
    install(&world, &model, &bash_asks())?;
    world.start_daemon()?;
    let mut command = Command::new(world.askd());
    command.args(["run", "--"]).args(pi(&world, &["-p", "play=main"])?);
    command.env_clear().envs(env(&world)).current_dir(world.project());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.process_group(0).spawn()?;

    let yes = world.ask("touch yes")?;
    assert_eq!(yes.lineage.agent, "pi");
    assert_eq!(world.allow(&yes.id)?, 0);
    world.wait_made("yes")?;
    let no = world.ask("touch no")?;
    assert_eq!(world.deny(&no.id, "not that one")?, 0);
    let result = model.result("main", 1)?;
    assert!(result.text.contains("not that one"), "{result:?}");
    until("the end of pi", || Ok(run.try_wait()?))?;
    let output = run.wait_with_output()?;
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("all is done"), "{said}\n{told}");
    assert!(told.contains(&format!("askd allow {}", yes.handle)), "{told}");
    assert!(!world.made("no"));
    world.wait(&no.id, "the denial delivered", |ask| matches!(&*ask.delivery, "handed" | "confirmed"))?;
    assert_eq!(files(&forwarding_dir(&world)), BTreeSet::new(), "nothing is left behind");
    Ok(())
}
