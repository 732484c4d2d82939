//! The headroom.v1alpha1 wire contract and its validating conversions.
