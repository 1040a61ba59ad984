//! `askd acp` between a scripted client and a scripted agent, with the real daemon.

mod answers;
mod ends;
mod plain;
mod stage;
