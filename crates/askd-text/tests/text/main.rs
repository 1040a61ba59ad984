//! What a person sees of an action, tried with hostile texts, generated ones, a terminal that believes everything,
//! and a real shell.
#![expect(clippy::unwrap_used, reason = "in a test, to fail is the handling")]

mod bash;
mod checks;
mod corpus;
mod oracle;
mod properties;
mod replay;
mod sizes;
