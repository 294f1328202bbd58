"""The instruments of the family `description`, which compare a text about an image with expected descriptions."""
