//! [`Annotations`]: the Node annotations that the capacity rules read, each parsed once.

use std::str::FromStr;

use super::marker::{Marker, RawNote};
use crate::{annotation::Annotation, hint::Note, names, ratio::Ratios};

/// Node annotations that the rules read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Annotations {
    /// Ratio of the administrator or of mode `auto`; [`names::RATIO`].
    pub ratio: Option<Annotation<Ratios>>,
    /// Recorded raw values, from [`names::RAW_ALLOCATABLE`].
    pub raw: Option<Annotation<RawNote>>,
    /// Last values written by the webhook; [`names::MARKER`].
    pub marker: Option<Annotation<Marker>>,
    /// Last applied hint, from [`names::HINT`].
    pub hint: Option<Annotation<Note>>,
    /// The administrator's ratio while `auto` owns the key; [`names::STATIC_RATIO`].
    pub static_ratio: Option<Annotation<Ratios>>,
    /// Values that the floor policy replaced in this request; [`names::KUBELET_RAW`].
    pub kubelet_raw: Option<Annotation<RawNote>>,
}

impl Annotations {
    /// Reads the annotations whose texts `get` returns by name. Texts that equal those in `known` are not parsed
    /// again.
    pub fn read<S: AsRef<str> + Into<String>>(
        mut get: impl FnMut(&'static str) -> Option<S>,
        known: &Self,
    ) -> Self {
        let Self {
            ratio,
            raw,
            marker,
            hint,
            static_ratio,
            kubelet_raw,
        } = known;
        Self {
            ratio: read(get(names::RATIO), ratio.as_ref()),
            raw: read(get(names::RAW_ALLOCATABLE), raw.as_ref()),
            marker: read(get(names::MARKER), marker.as_ref()),
            hint: read(get(names::HINT), hint.as_ref()),
            static_ratio: read(get(names::STATIC_RATIO), static_ratio.as_ref()),
            kubelet_raw: read(get(names::KUBELET_RAW), kubelet_raw.as_ref()),
        }
    }

    /// Name and text of each annotation.
    pub fn texts(&self) -> [(&'static str, Option<&str>); 6] {
        let Self {
            ratio,
            raw,
            marker,
            hint,
            static_ratio,
            kubelet_raw,
        } = self;
        [
            (names::RATIO, ratio.as_ref().map(Annotation::text)),
            (names::RAW_ALLOCATABLE, raw.as_ref().map(Annotation::text)),
            (names::MARKER, marker.as_ref().map(Annotation::text)),
            (names::HINT, hint.as_ref().map(Annotation::text)),
            (names::STATIC_RATIO, static_ratio.as_ref().map(Annotation::text)),
            (names::KUBELET_RAW, kubelet_raw.as_ref().map(Annotation::text)),
        ]
    }

    /// Marker of the Node with that UID; an unreadable one, or one of another Node, counts as absent.
    pub(super) fn marker_of(&self, uid: &str) -> Option<&Marker> {
        let marker = self.marker.as_ref()?.value()?;
        marker.is_of(uid).then_some(marker)
    }

    /// Last applied hint of the Node with that UID; an unreadable one, or one of another Node, counts as absent.
    pub fn note_of(&self, uid: &str) -> Option<&Note> {
        self.hint.as_ref()?.value().filter(|note| note.uid == uid)
    }
}

fn read<T: FromStr>(
    text: Option<impl AsRef<str> + Into<String>>,
    known: Option<&Annotation<T>>,
) -> Option<Annotation<T>> {
    text.map(|text| Annotation::parse_unless(text, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_annotation_is_read_by_its_name_and_parsed_unless_it_is_known() {
        let all = |key: &'static str| Some(format!("{{\"{key}\":1}}"));
        let read = Annotations::read(all, &Annotations::default());
        for (key, text) in read.texts() {
            assert_eq!(text.map(str::to_owned), all(key));
        }
        let again = Annotations::read(all, &read);
        let Annotations {
            ratio,
            raw,
            marker,
            hint,
            static_ratio,
            kubelet_raw,
        } = &again;
        assert!(
            ratio
                .as_ref()
                .unwrap()
                .is_shared_with(read.ratio.as_ref().unwrap())
        );
        assert!(raw.as_ref().unwrap().is_shared_with(read.raw.as_ref().unwrap()));
        assert!(
            marker
                .as_ref()
                .unwrap()
                .is_shared_with(read.marker.as_ref().unwrap())
        );
        assert!(hint.as_ref().unwrap().is_shared_with(read.hint.as_ref().unwrap()));
        let stored = read.static_ratio.as_ref().unwrap();
        assert!(static_ratio.as_ref().unwrap().is_shared_with(stored));
        let stored = read.kubelet_raw.as_ref().unwrap();
        assert!(kubelet_raw.as_ref().unwrap().is_shared_with(stored));
    }
}
