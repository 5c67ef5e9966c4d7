#!/usr/bin/env ruby
=begin
Wrap a paragraph so that no line is longer than a given width.
A word that is longer than the width gets a line of its own.
=end

text, width = ARGV
abort 'usage: wrap.rb TEXT [WIDTH]' unless text

limit = Integer(width || 72)
lines = text.split.each_with_object([]) do |word, wrapped|
  if wrapped.any? && wrapped.last.length + 1 + word.length <= limit
    wrapped.last << ' ' << word
  else
    wrapped << word.dup
  end
end
puts lines
