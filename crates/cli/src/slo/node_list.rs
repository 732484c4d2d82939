//! [`NodeList`]: names and labels of nodes.

use headroom_domain::selector::{Labels, Selector};
use headroom_rules::slo::Nodes;

#[derive(Debug, Default)]
pub struct NodeList(Vec<(String, Labels)>);

impl NodeList {
    pub fn labels(&self, name: &str) -> Option<&Labels> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, labels)| labels)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Names of the nodes whose labels match the selector.
    pub fn matching<'s>(&'s self, selector: &Selector) -> impl Iterator<Item = &'s str> {
        let matching = self.0.iter().filter(|(_, labels)| selector.matches(labels));
        matching.map(|(name, _)| name.as_str())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Labels)> for NodeList {
    fn from_iter<I: IntoIterator<Item = (String, Labels)>>(nodes: I) -> Self {
        Self(nodes.into_iter().collect())
    }
}

impl Nodes for NodeList {
    fn visit(&self, visitor: &mut dyn FnMut(&str, &Labels)) {
        for (name, labels) in &self.0 {
            visitor(name, labels);
        }
    }
}
