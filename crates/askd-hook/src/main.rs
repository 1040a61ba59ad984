//! `askd-hook` with the packages that it needs and no others: for the tests of this one, and linked statically by
//! `cargo xtask dist`. What `cargo install` installs is the same program in the package `askd`.

fn main() {
    askd_hook::program()
}
