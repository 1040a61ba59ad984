//! A tree on a file system of which the kernel tells nothing: a shared mount, with its requesters on the other side.

use super::fuse::Mount;
use super::limits::records;
use super::*;

#[test]
fn f7_on_a_shared_mount_that_tells_nothing_everything_arrives_and_no_look_is_followed_by_another() {
    let (world, _) = started();
    let behind = world.path("behind");
    // Where nobody may mount anything, a tree without hints is tested by its option alone.
    let Some(mount) = Mount::new(&world.path("mount"), &behind) else { return };
    let (seen, tree) = (Tree { dir: world.path("mount/tree") }, Tree { dir: behind.join("tree") });
    fs::create_dir(&tree.dir).unwrap();
    let mut server = serve(&world, &seen, &[]);
    tree.ask("s", "r1");
    answer(&world, "allow", "r1", &[]);
    assert_eq!(tree.fetch("s", "r1")["outcome"], "allowed");
    delivery(&world, "r1", "confirmed");
    // The other side has no room for a while.
    tree.ask("s", "r0");
    world.open("r0");
    mount.fill(true);
    answer(&world, "allow", "r0", &[]);
    server.has_said("the answer cannot be put in place and is kept");
    assert!(!tree.response("s", "r0").exists());
    mount.fill(false);
    assert_eq!(tree.fetch("s", "r0")["outcome"], "allowed");
    // Taken away behind its back, with an open ask; and the requester makes it again.
    tree.ask("s", "r2");
    world.open("r2");
    remove(&tree.session("s"));
    until("written again", || tree.write("s", "r2", &own("r2", "r2", &[])).ok());
    answer(&world, "deny", "r2", &["-m", "not there"]);
    assert_eq!(tree.fetch("s", "r2")["message"], "not there");
    // One that leaves; one that is written anew beside its answer; an unreadable one.
    tree.ask("s", "left");
    world.open("left");
    fs::remove_file(tree.request("s", "left")).unwrap();
    assert_eq!(settled(&world, "left")["outcome"]["cause"], "requester_gone");
    tree.write("s", "job", &own("job", "job 1", &[])).unwrap();
    answer(&world, "allow", "job 1", &[]);
    tree.answer("s", "job");
    tree.write("s", "job", &own("job", "job 2", &[])).unwrap();
    world.open("job 2");
    assert!(!tree.response("s", "job").exists());
    tree.write("s", "torn", "{").unwrap();
    assert_eq!(tree.answer("s", "torn")["outcome"], "unavailable");
    // A request in place, one with its answer, one that nobody can read: each look costs the same, and there is one a
    // second, however its own files make the kernel speak.
    let before = mount.requests();
    let beats = 5;
    records(&tree, beats);
    let asked = mount.requests() - before;
    assert!(asked < 400 * beats, "{asked} requests of the kernel for {beats} records");
    for stem in ["r0", "r1", "r2", "job 1", "job 2"] {
        assert_eq!(times_asked(&world, stem), 1, "{stem}");
    }
    server.signal(Signal::TERM);
    assert_eq!(server.end().0, Some(0));
    drop(mount);
}
