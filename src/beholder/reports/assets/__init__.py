"""The look, and the parts that report and web app share: style sheets and ES modules, inlined or served as they are."""
