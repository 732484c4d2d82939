//! [`NodeName`]: a node's name on the command line, as `NAME` or as kubectl prints it, `node/NAME`.

use std::{fmt, str::FromStr};

/// Names that kubectl accepts for the kind Node.
const KINDS: [&str; 3] = ["node", "nodes", "no"];

/// Name of a node, without its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName(String);

/// The text does not name a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeNameError {
    #[error("{0:?} is not a node; use NAME or node/NAME")]
    OtherKind(String),
    #[error("the name is empty; use NAME or node/NAME")]
    Empty,
}

impl NodeName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

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
    fn a_name_may_follow_its_kind() {
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
