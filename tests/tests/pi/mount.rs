//! A directory on a shared mount that tells nothing: real children of pi on the one side, askd on the other.

use std::fs;

use anyhow::Result;
use askd_tests::{Model, Scripts, Step, World, until};

use super::forwarded::{child, wait_for_no_json};
use super::fuse::Mount;
use super::{agent_dir, bash, bash_asks, install};

#[test]
fn f6_f7_a_child_on_the_other_side_of_a_shared_mount_gets_its_answers_and_a_full_disk_only_delays_them()
-> Result<()> {
    let scripts = Scripts::of("main", [bash("touch one"), bash("touch two"), Step::say("done")]);
    let model = Model::start(scripts)?;
    let mut world = World::bare()?;
    install(&world, &model, &bash_asks())?;
    // Where nobody may mount anything there is no such directory.
    let Some(mount) = Mount::new(&world.file("mount"), &agent_dir(&world).join("sessions")) else {
        return Ok(());
    };
    let dir = world.file("mount/permission-forwarding");
    fs::create_dir_all(world.askd_dir())?;
    fs::write(
        world.askd_dir().join("config.toml"),
        format!("[spool]\ndirs = [{:?}]\n", dir.display().to_string()),
    )?;
    world.start_daemon()?;
    let mut running = child(&world, "parent-1", "main")?;
    let ask = world.ask("touch one")?;
    assert_eq!(world.allow(&ask.id)?, 0);
    world.wait_made("one")?;
    let ask = world.ask("touch two")?;
    mount.fill(true);
    assert_eq!(world.allow(&ask.id)?, 0);
    let kept = "the answer cannot be put in place and is kept";
    until("a full disk", || Ok(world.daemon_said().contains(kept).then_some(())))?;
    assert!(!world.made("two"));
    mount.fill(false);
    world.wait_made("two")?;
    until("the end of the child", || Ok(running.try_wait()?))?;
    world.wait(&ask.id, "the answer fetched", |ask| ask.delivery == "confirmed")?;
    assert_eq!(world.asks()?.len(), 2, "nobody was asked twice");
    assert!(mount.requests() > 0);
    wait_for_no_json(&world)
}
