# Write one sentence that thanks everybody who contributed.
require 'json'

authors = JSON.parse($stdin.read).fetch('authors').uniq.sort
*others, last = authors
names = others.empty? ? last : "#{others.join(', ')} and #{last}"
puts JSON.generate({ thanks: "Thanks to #{names}.", people: authors.size })
