//! Flags and values that several commands share. The flags of one command are in that command's file.

mod list_flags;
mod node_name;
mod selector;
mod shared_flags;

pub(crate) use self::list_flags::{ListArgs, NodeOrder};
pub use self::{
    node_name::{NodeName, NodeNameError},
    selector::{NodeLabelSelector, SelectorTextError},
    shared_flags::{Address, AddressError, ConnectArgs, Format, OutputFormat},
};
