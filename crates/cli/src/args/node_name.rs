//! `NodeName`: the name of a node on the command line, as `NAME` or as kubectl prints it: `node/NAME`.

use std::{fmt, str::FromStr};

/// What kubectl calls nodes before a slash.
const KINDS: [&str; 3] = ["node", "nodes", "no"];

/// The name of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName(String);

/// The text names no node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    /// It is of another kind.
    #[error("{0:?} is no node; give NAME or node/NAME")]
    OtherKind(String),
    /// There is no name.
    #[error("the name is empty; give NAME or node/NAME")]
    Empty,
}

impl NodeName {
    /// The name alone.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name alone.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl FromStr for NodeName {
    type Err = NodeNameError;

    fn from_str(text: &str) -> Result<Self, NodeNameError> {
        let name = match text.split_once('/') {
            Some((kind, name)) if KINDS.contains(&kind) => name,
            Some(_) => return Err(NodeNameError::OtherKind(text.to_owned())),
            None => text,
        };
        match name {
            "" => Err(NodeNameError::Empty),
            name if name.contains('/') => Err(NodeNameError::OtherKind(text.to_owned())),
            name => Ok(Self(name.to_owned())),
        }
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_behind_its_kind() {
        for text in ["worker-1", "node/worker-1", "nodes/worker-1", "no/worker-1"] {
            assert_eq!(text.parse::<NodeName>().unwrap().as_str(), "worker-1");
        }
        for (text, error) in [
            ("", NodeNameError::Empty),
            ("node/", NodeNameError::Empty),
            ("pod/a", NodeNameError::OtherKind("pod/a".to_owned())),
            ("node/a/b", NodeNameError::OtherKind("node/a/b".to_owned())),
        ] {
            assert_eq!(text.parse::<NodeName>(), Err(error));
        }
    }
}
