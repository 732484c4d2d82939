//! Path of a value, as a chain that is formatted only for errors.

use std::fmt;

/// Path of a value. Displays as `nodeConfigs[1].nodeSelector.matchLabels[pool]`; with `{:#}` in the form of Go's
/// decoder, without indexes of lists and names in maps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trail<'t> {
    /// A member of the document.
    Top(&'t str),
    /// A member of an object.
    Member(&'t Trail<'t>, &'t str),
    /// An element of a list.
    Element(&'t Trail<'t>, usize),
    /// A value of a map.
    Named(&'t Trail<'t>, &'t str),
}

impl fmt::Display for Trail<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_go = f.alternate();
        let before = |before: &Self, f: &mut fmt::Formatter<'_>| before.fmt(f);
        match *self {
            Self::Top(name) => f.write_str(name),
            Self::Member(object, name) => {
                before(object, f)?;
                write!(f, ".{name}")
            }
            Self::Element(inside, _) | Self::Named(inside, _) if is_go => before(inside, f),
            Self::Element(list, index) => {
                before(list, f)?;
                write!(f, "[{index}]")
            }
            Self::Named(map, name) => {
                before(map, f)?;
                write!(f, "[{name}]")
            }
        }
    }
}
