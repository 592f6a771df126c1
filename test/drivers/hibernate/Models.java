// SPDX-License-Identifier: ISC

import jakarta.persistence.CascadeType;
import jakarta.persistence.Column;
import jakarta.persistence.Entity;
import jakarta.persistence.GeneratedValue;
import jakarta.persistence.GenerationType;
import jakarta.persistence.Id;
import jakarta.persistence.Inheritance;
import jakarta.persistence.InheritanceType;
import jakarta.persistence.ManyToOne;
import jakarta.persistence.OneToMany;
import jakarta.persistence.Version;
import java.util.ArrayList;
import java.util.List;

/** Ids of a sequence, 50 at a time; a version. */
@Entity(name = "Author")
class Author {
	@Id
	@GeneratedValue
	Long id;
	@Version
	int version;
	@Column(unique = true)
	String name;
	@OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true)
	List<Book> books = new ArrayList<>();

	Author() {}

	Author(String name) {
		this.name = name;
	}

	Author add(int pages) {
		Book book = new Book();
		book.author = this;
		book.pages = pages;
		books.add(book);
		return this;
	}
}

@Entity(name = "Book")
class Book {
	@Id
	@GeneratedValue
	Long id;
	@ManyToOne(optional = false)
	Author author;
	int pages;
}

/** An id of an identity column. */
@Entity(name = "Note")
class Note {
	@Id
	@GeneratedValue(strategy = GenerationType.IDENTITY)
	Long id;
	String words;

	Note() {}

	Note(String words) {
		this.words = words;
	}
}

/** In two tables, which one statement of Hibernate's language changes. */
@Entity(name = "Vehicle")
@Inheritance(strategy = InheritanceType.JOINED)
class Vehicle {
	@Id
	@GeneratedValue
	Long id;
	String owner;
	int wheels;
}

@Entity(name = "Car")
class Car extends Vehicle {
	int doors;

	Car() {}

	Car(String owner) {
		this.owner = owner;
		wheels = 4;
		doors = 5;
	}
}
